#include "cli/hosts_launch.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/hosts_orders.h"
#include "common/text/shell_quote.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

namespace {

constexpr int kWorkersOfAHostMax = 4096;

// The hosts do not get these flags as they are.
constexpr auto kOwnFlags = std::to_array<std::string_view>({"nproc-per-node", "dry-run", "check"});

// As on a host with the most CPUs and GPUs.
Result<int> workers_at_most(const std::string& text) {
  return parse_worker_count(text, {.cpus = kWorkersOfAHostMax, .gpus = kWorkersOfAHostMax});
}

void check_workers(const CommandLine& line, const std::vector<HostChoice>& hosts) {
  for (const HostChoice& host : hosts) {
    if (!host.workers) continue;
    if (const auto workers = workers_at_most(*host.workers); !workers) {
      throw CLI::ValidationError(line.find("hosts")->said, workers.error().message);
    }
  }
}

// The user's flags for the launch of a host.
std::vector<std::string> arguments_for(const HostChoice& host, const CommandLine& line,
                                       bool as_check) {
  std::vector<std::string> arguments;
  for (const LaunchFlag& flag : launch_flags()) {
    const GivenFlag* given = line.find(flag.name);
    const bool is_own = std::count(kOwnFlags.begin(), kOwnFlags.end(), flag.name) > 0;
    if (given == nullptr || is_own || is_flag_of_hosts(flag.name)) continue;
    arguments.push_back(flag.takes_value() ? fmt::format("--{}={}", flag.name, given->value)
                                           : fmt::format("--{}", flag.name));
  }
  if (as_check) return arguments;
  const GivenFlag* workers = line.find("nproc-per-node");
  if (host.workers || workers != nullptr) {
    arguments.push_back(
        fmt::format("--nproc-per-node={}", host.workers ? *host.workers : workers->value));
  }
  // The hosts do not see the terminal, on which the lines of all of them appear.
  if (::isatty(STDOUT_FILENO) != 0 && line.find("prefix") == nullptr) {
    arguments.emplace_back("--prefix=[${role_name}${rank}]:");
  }
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), line.program.begin(), line.program.end());
  return arguments;
}

}  // namespace

HostsRun hosts_launch(const LaunchFlags& flags, const CommandLine& line,
                      const Environment& environment) {
  auto hosts = chosen_hosts(line);
  check_workers(line, hosts);
  const auto arguments = [&](const HostChoice& host) {
    return arguments_for(host, line, flags.as_check);
  };
  return hosts_run(std::move(hosts),
                   {.command = flags.as_check ? "check" : "launch", .arguments = arguments}, flags,
                   line, environment);
}

std::string most_workers(const HostsRun& run, const LaunchFlags& flags) {
  int most = 1;
  for (const HostChoice& host : run.hosts) {
    const std::string& text = host.workers ? *host.workers : flags.nproc_per_node;
    const auto workers = workers_at_most(text);
    if (!workers) return text;  // A wrong value of --nproc-per-node.
    most = std::max(most, *workers);
  }
  return std::to_string(most);
}

std::string dry_run_text(const HostsRun& run) {
  std::string text;
  for (std::size_t i = 0; i < run.hosts.size(); ++i) {
    text += fmt::format("# node {} of {}, over: {} {}\ncd {} &&", i, run.hosts.size(),
                        fmt::join(run.ssh, " "), run.hosts[i].destination,
                        shell_quoted(run.orders[i].folder));
    for (const auto& [name, value] : run.orders[i].environment.variables()) {
      text += fmt::format(" \\\n  {}={}", name, shell_quoted(value));
    }
    text += " \\\n  distrun launch";
    for (const std::string& argument : run.orders[i].arguments) {
      text += ' ' + shell_quoted(argument);
    }
    text += '\n';
  }
  return text;
}

}  // namespace distrun
