#include "cli/hosts_launch.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "common/text/shell_quote.h"
#include "common/text/split.h"
#include "launcher/engines/ssh_hosts.h"
#include "launcher/plan/rendezvous.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

namespace {

constexpr int kWorkersOfAHostMax = 4096;

// What only the distrun that the user starts reads.
constexpr auto kOwnFlags = std::to_array<std::string_view>(
    {"hosts", "ssh", "pass-env", "nproc-per-node", "dry-run", "check"});

// As on a host with the most CPUs and GPUs.
Result<int> workers_at_most(const std::string& text) {
  return parse_worker_count(text, {.cpus = kWorkersOfAHostMax, .gpus = kWorkersOfAHostMax});
}

std::vector<HostChoice> chosen_hosts(const GivenFlag& given) {
  auto hosts = parse_hosts(given.value);
  if (!hosts) throw CLI::ValidationError(given.said, hosts.error().message);
  for (const HostChoice& host : *hosts) {
    if (!host.workers) continue;
    if (const auto workers = workers_at_most(*host.workers); !workers) {
      throw CLI::ValidationError(given.said, workers.error().message);
    }
  }
  return std::move(*hosts);
}

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

// The user's flags for the launch of a host.
std::vector<std::string> arguments_for(const HostChoice& host, const CommandLine& line,
                                       bool as_check) {
  std::vector<std::string> arguments;
  for (const LaunchFlag& flag : launch_flags()) {
    const GivenFlag* given = line.find(flag.name);
    if (given == nullptr || std::count(kOwnFlags.begin(), kOwnFlags.end(), flag.name) > 0) continue;
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

HostsRun hosts_launch(const LaunchFlags& flags, const CommandLine& line, const std::string& run_id,
                      const Environment& environment) {
  HostsRun run{.hosts = chosen_hosts(*line.find("hosts")), .ssh = words_of(flags.ssh, ' ')};
  check_other_flags(line, run.hosts);
  if (run.ssh.empty()) throw CLI::ValidationError(line.find("ssh")->said, "needs a command");
  std::error_code error;
  const std::string folder = std::filesystem::current_path(error).string();
  if (error) throw CLI::ValidationError("--hosts", "the current folder does not exist any more");
  const auto more = words_of(flags.pass_env, ',');
  for (std::size_t i = 0; i < run.hosts.size(); ++i) {
    HostOrder order{.command = flags.as_check ? "check" : "launch",
                    .arguments = arguments_for(run.hosts[i], line, flags.as_check),
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
