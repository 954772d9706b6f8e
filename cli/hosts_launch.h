// `--hosts` of distrun launch and distrun check: turns the flags into what each host gets.
//
//     HostsRun hosts = hosts_launch(flags, line, environment);
//     run_on_hosts(hosts, options, environment);       // launcher/hosts
#pragma once

#include <string>

#include "cli/command_line.h"
#include "cli/launch_options.h"
#include "common/os/environment.h"
#include "launcher/hosts/hosts_run.h"

namespace distrun {

// Throws CLI::ParseError for wrong hosts, and for flags that contradict --hosts.
HostsRun hosts_launch(const LaunchFlags& flags, const CommandLine& line,
                      const Environment& environment);

// The largest --nproc-per-node of the hosts. Of "gpu" and the like, which only the host knows, the
// largest possible number.
std::string most_workers(const HostsRun& run, const LaunchFlags& flags);

// For --dry-run: the command of each host.
std::string dry_run_text(const HostsRun& run);

}  // namespace distrun
