#include "cli/hosts_orders.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/random_run_id.h"
#include "common/text/split.h"
#include "launcher/engines/ssh_hosts.h"
#include "launcher/plan/rendezvous.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

namespace {

constexpr auto kFlagsOfHosts = std::to_array<std::string_view>({"hosts", "ssh", "pass-env"});

void check_other_flags(const CommandLine& line, const std::vector<HostChoice>& hosts) {
  const std::string& said = line.find("hosts")->said;
  for (const char* flag : {"nnodes", "node-rank", "standalone"}) {
    if (const GivenFlag* given = line.find(flag)) {
      throw CLI::ValidationError(
          given->said, fmt::format("cannot be combined with {}, which lists the nodes", said));
    }
  }
  const bool has_address =
      line.find("master-addr") != nullptr || line.find("rdzv-endpoint") != nullptr;
  const auto is_here = [](const HostChoice& host) { return is_loopback(host.address); };
  if (!has_address && is_here(hosts.front()) && !std::all_of(hosts.begin(), hosts.end(), is_here)) {
    throw CLI::ValidationError(
        said, fmt::format("on the other hosts, '{}' is not node 0 but the host itself; give "
                          "the name of node 0 that the others know, or --master-addr",
                          hosts.front().address));
  }
}

}  // namespace

bool is_flag_of_hosts(std::string_view name) {
  return std::count(kFlagsOfHosts.begin(), kFlagsOfHosts.end(), name) > 0;
}

void check_without_hosts(const CommandLine& line) {
  for (const std::string_view flag : kFlagsOfHosts) {
    if (const GivenFlag* given = line.find(flag)) {
      throw CLI::ValidationError(given->said, "has no effect without --hosts");
    }
  }
}

std::vector<HostChoice> chosen_hosts(const CommandLine& line) {
  const GivenFlag& given = *line.find("hosts");
  auto hosts = parse_hosts(given.value);
  if (!hosts) throw CLI::ValidationError(given.said, hosts.error().message);
  return std::move(*hosts);
}

HostsRun hosts_run(std::vector<HostChoice> hosts, const CommandOnHosts& command,
                   const LaunchFlags& flags, const CommandLine& line,
                   const Environment& environment) {
  check_other_flags(line, hosts);
  HostsRun run{.hosts = std::move(hosts), .orders = {}, .ssh = words_of(flags.ssh, ' ')};
  if (run.ssh.empty()) throw CLI::ValidationError(line.find("ssh")->said, "needs a command");
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  if (error) throw CLI::ValidationError("--hosts", "the current folder does not exist any more");
  const auto more = words_of(flags.pass_env, ',');
  const std::string run_id = random_run_id();
  for (std::size_t i = 0; i < run.hosts.size(); ++i) {
    HostOrder order{.command = command.command,
                    .arguments = command.arguments(run.hosts[i]),
                    .folder = folder,
                    .environment = passed_variables(environment, more)};
    set_place(order.environment, {.nodes = static_cast<int>(run.hosts.size()),
                                  .node = static_cast<int>(i),
                                  .address = run.hosts.front().address,
                                  .host = run.hosts[i].address,
                                  .id = run_id});
    run.orders.push_back(std::move(order));
  }
  return run;
}

LaunchOptions options_on_hosts(const HostsRun& run, LaunchFlags flags, CommandLine line,
                               const Environment& environment) {
  flags.nnodes = std::to_string(run.hosts.size());
  flags.is_placed = true;
  line.flags.try_emplace("master-addr", GivenFlag{run.hosts.front().address, "--hosts"});
  flags.master_addr = line.find("master-addr")->value;
  return launch_options(flags, line, this_machine(environment), environment);
}

}  // namespace distrun
