// `--hosts` of any command: turns the flags of hosts into what each host gets.
//
//     const auto hosts = chosen_hosts(line);
//     …                                          // The command checks the N of HOST:N.
//     HostsRun run = hosts_run(hosts, {.command = "check", .arguments = …}, flags, line,
//                              environment);
//     const LaunchOptions options = options_on_hosts(run, flags, line, environment);
//     run_on_hosts(run, options, environment);   // launcher/hosts
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.h"
#include "cli/launch_options.h"
#include "common/os/environment.h"
#include "launcher/hosts/hosts_run.h"

namespace distrun {

// What only the distrun that the user starts reads.
bool is_flag_of_hosts(std::string_view name);

// Throws CLI::ParseError if --ssh or --pass-env is given. For a command without --hosts.
void check_without_hosts(const CommandLine& line);

// The hosts of --hosts, which must be given. Throws CLI::ParseError.
std::vector<HostChoice> chosen_hosts(const CommandLine& line);

// What every host runs.
struct CommandOnHosts {
  std::string command;  // Of distrun: "launch".
  std::function<std::vector<std::string>(const HostChoice&)> arguments;
};

// The place of each host is in the environment of its order (launcher/engines/ssh_hosts.h). Throws
// CLI::ParseError for flags that contradict --hosts.
HostsRun hosts_run(std::vector<HostChoice> hosts, const CommandOnHosts& command,
                   const LaunchFlags& flags, const CommandLine& line,
                   const Environment& environment);

// The options that all nodes have. Throws CLI::ParseError.
LaunchOptions options_on_hosts(const HostsRun& run, LaunchFlags flags, CommandLine line,
                               const Environment& environment);

}  // namespace distrun
