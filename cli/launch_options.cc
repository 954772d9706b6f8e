#include "cli/launch_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/flags.h"
#include "common/os/host_name.h"
#include "common/os/result_file.h"
#include "common/os/signal_list.h"
#include "common/text/parse_number.h"
#include "launcher/outcome/run_end.h"
#include "launcher/plan/rendezvous.h"
#include "launcher/plan/several_nodes.h"
#include "launcher/plan/store_choice.h"

namespace distrun {

namespace {

StoreChoice store_from(const std::string& text) {
  std::error_code error;  // Without it, the path must be absolute.
  const std::string folder = std::filesystem::current_path(error).string();
  auto store = parse_store_choice(text, folder);
  if (!store) throw CLI::ValidationError("--store", store.error().message);
  return std::move(*store);
}

class OptionsBuilder {
 public:
  OptionsBuilder(const LaunchFlags& flags, const CommandLine& line, const Machine& machine,
                 const Environment& environment)
      : flags_(flags), line_(line), machine_(machine), environment_(environment) {}

  LaunchOptions build();

 private:
  // Throws CLI::ValidationError, which names the flag or variable that gave the value.
  [[noreturn]] void refuse(std::string_view name, const std::string& message) const {
    throw CLI::ValidationError(said(name), message);
  }

  // How the flag was given: "--nnodes", "PET_NNODES".
  std::string said(std::string_view name) const {
    const GivenFlag* given = line_.find(name);
    return given != nullptr ? given->said : fmt::format("--{}", name);
  }

  template <class Value>
  Value taken(std::string_view name, Result<Value> value) const {
    if (!value) refuse(name, value.error().message);
    return std::move(*value);
  }

  void take_program();
  void take_nodes();
  void take_store();
  void take_rendezvous();
  void take_nodes_rendezvous(const RendezvousFlags& flags);
  void take_log();
  void take_result_files() const;
  void take_metrics();
  void take_signals();
  void take_times();
  void check_what_is_not_used() const;

  const LaunchFlags& flags_;
  const CommandLine& line_;
  const Machine& machine_;
  const Environment& environment_;
  LaunchOptions options_;
};

LaunchOptions OptionsBuilder::build() {
  options_.same_user = flags_.same_user;
  options_.collectives = flags_.collectives || !flags_.trace.empty();
  options_.expects_collectives = flags_.collectives || flags_.digest;
  options_.digest_inputs = !flags_.save_digests.empty() || !flags_.compare_digests.empty();
  options_.digest = flags_.digest || options_.digest_inputs;
  options_.display_map = flags_.display_map;
  options_.shares_console = flags_.shares_console;
  options_.task = flags_.task;
  options_.is_quiet = flags_.as_check;
  options_.role = flags_.role;
  options_.run_id = flags_.run_id;
  options_.virtual_local_rank = flags_.virtual_local_rank;
  take_program();
  options_.nproc_per_node =
      taken("nproc-per-node", parse_worker_count(flags_.nproc_per_node, machine_));
  if (line_.find("numa-binding") != nullptr) {
    options_.numa_binding = taken("numa-binding", parse_numa_binding(flags_.numa_binding));
  }
  options_.max_restarts = taken("max-restarts", parse_number<int>(flags_.max_restarts, 0));
  take_nodes();
  take_store();
  take_rendezvous();
  take_log();
  take_metrics();
  take_signals();
  take_times();
  check_what_is_not_used();
  return std::move(options_);
}

void OptionsBuilder::take_program() {
  if (line_.program.empty()) throw CLI::RequiredError("PROGRAM");
  options_.program = line_.program.front();
  options_.arguments.assign(line_.program.begin() + 1, line_.program.end());
  options_.module = flags_.module;
  options_.no_python = flags_.no_python;
  if (flags_.run_path) {  // Overrides the other two, as in torchrun.
    options_.module = options_.no_python = false;
  }
  if (options_.module && options_.no_python) {
    refuse("module", "cannot be combined with --no-python");
  }
  options_.python = flags_.run_path || flags_.as_torchrun;
}

void OptionsBuilder::take_nodes() {
  const auto colon = flags_.nnodes.find(':');
  const int min = taken("nnodes", parse_number<int>(flags_.nnodes.substr(0, colon), 1));
  const int max = colon == std::string::npos
                      ? min
                      : taken("nnodes", parse_number<int>(flags_.nnodes.substr(colon + 1), 1));
  if (min > max)
    refuse("nnodes", "'" + flags_.nnodes + "': the first number is larger than the second");
  if (min < max)
    refuse("nnodes", "elastic runs (MIN:MAX) are not supported yet; give a fixed number of nodes");
  options_.nnodes = max;
  options_.node_rank = taken("node-rank", parse_number<int>(flags_.node_rank, 0));
  if (options_.node_rank >= options_.nnodes) {
    refuse("node-rank",
           fmt::format("{} is not less than --nnodes {}", options_.node_rank, options_.nnodes));
  }
}

void OptionsBuilder::take_rendezvous() {
  RendezvousFlags flags{.backend = taken("rdzv-backend", parse_rdzv_backend(flags_.rdzv_backend)),
                        .standalone = flags_.standalone,
                        .run_id = flags_.run_id,
                        .master_addr = taken("master-addr", parse_host(flags_.master_addr))};
  if (!flags_.rdzv_endpoint.empty())
    flags.endpoint = taken("rdzv-endpoint", parse_endpoint(flags_.rdzv_endpoint));
  if (flags.backend == RdzvBackend::kStatic && !flags_.standalone && flags.endpoint &&
      !flags.endpoint->port) {
    refuse("rdzv-endpoint", "'" + flags_.rdzv_endpoint + "' has no port; give HOST:PORT");
  }
  if (line_.find("master-port") != nullptr)
    flags.master_port = taken("master-port", parse_number<std::uint16_t>(flags_.master_port));
  if (!flags_.local_addr.empty())
    flags.local_addr = taken("local-addr", parse_host(flags_.local_addr));
  const auto conf = parse_rdzv_conf(flags_.rdzv_conf);
  if (!conf) refuse("rdzv-conf", conf.error().message);
  if (options_.nnodes > 1) return take_nodes_rendezvous(flags);

  RunRendezvous place = run_rendezvous(flags);
  options_.master_addr = std::move(place.address);
  options_.address_flag = said(place.flag);
  options_.master_port = place.port;
  options_.run_id = std::move(place.run_id);
}

void OptionsBuilder::take_nodes_rendezvous(const RendezvousFlags& flags) {
  if (flags_.standalone) {
    throw CLI::ParseError(fmt::format("{0} runs one node; remove {0} or {1} {2}",
                                      said("standalone"), said("nnodes"), flags_.nnodes),
                          kExitUsage);
  }
  if (flags.backend == RdzvBackend::kC10d && !flags_.is_placed) {
    refuse("rdzv-backend",
           "c10d is not supported with several nodes yet; remove this flag and give --node-rank");
  }
  options_.master_addr = flags.endpoint ? flags.endpoint->host : flags.master_addr;
  const std::string_view address_flag = flags.endpoint ? "rdzv-endpoint" : "master-addr";
  options_.address_flag = said(address_flag);
  if (const auto can_connect = check_interface(options_.master_addr); !can_connect) {
    refuse(address_flag, can_connect.error().message);
  }
  const auto port = flags.endpoint ? flags.endpoint->port : flags.master_port;
  if (port == 0) {
    refuse(flags.endpoint ? "rdzv-endpoint" : "master-port",
           "several nodes need a fixed port, the same on every node");
  }
  options_.master_port = port.value_or(0);  // 0 means the default for several nodes.
  if (const auto settled = settle_several_nodes(options_); !settled) {
    throw CLI::ParseError(settled.error().message, kExitUsage);
  }
  options_.join_timeout =
      taken("rdzv-conf", join_timeout_of(flags_.rdzv_conf)).value_or(options_.join_timeout);
  if (!flags.endpoint && line_.find("master-addr") == nullptr) {
    refuse("master-addr", "several nodes need the address of node 0, the same on every node");
  }
}

void OptionsBuilder::take_log() {
  const auto& task = options_.task;
  options_.log =
      flags_.log.choice(line_, environment_, task ? task->local_ranks : options_.nproc_per_node);
  if (task) options_.log = log_choice_of(options_.log, LocalRank(task->local_rank));
  options_.log.host = host_name();
  take_result_files();
}

void OptionsBuilder::take_result_files() const {
  const std::pair<const char*, const std::string&> files[] = {
      {"events", flags_.events},
      {"html", flags_.html},
      {"trace", flags_.trace},
      {"record", flags_.record},
      {"compare-digests", flags_.compare_digests},
      {"save-digests", flags_.save_digests}};
  if (!flags_.termination_log.empty() && are_same_file(flags_.termination_log, "/dev/stdout")) {
    refuse("termination-log", "stdout has the output of the workers; give a file");
  }
  for (const auto& [flag, path] : files) {
    if (line_.find(flag) != nullptr && path.empty()) refuse(flag, "needs a file name");
    if (path.empty()) continue;
    const bool mixes = path == "-" || are_same_file(path, "/dev/stdout");
    if (mixes && flag != std::string_view("events")) {
      refuse(flag, "stdout has the output of the workers; give a file");
    }
    for (const auto& [other, its_path] : files) {
      if (other == std::string_view(flag)) break;
      if (its_path.empty() || !are_same_file(path, its_path)) continue;
      refuse(flag, fmt::format("'{}' is also the file of --{}; give another one", path, other));
    }
  }
}

void OptionsBuilder::take_store() {
  options_.store = store_from(flags_.store);
  if (options_.store.kind != StoreChoice::Kind::kFile) return;
  for (const std::string_view name : {"master-addr", "master-port", "rdzv-endpoint", "same-user"}) {
    if (line_.find(name) != nullptr)
      refuse(name, "cannot be combined with --store " + flags_.store);
  }
}

void OptionsBuilder::take_metrics() {
  if (line_.find("metrics-port") == nullptr) {
    if (line_.find("metrics-host") == nullptr) return;
    refuse("metrics-host",
           "has no effect without --metrics-port; give a port, or 0 for a free one");
  }
  options_.metrics_port = taken("metrics-port", parse_number<std::uint16_t>(flags_.metrics_port));
  if (options_.task && options_.task->local_ranks > 1 && *options_.metrics_port != 0) {
    refuse("metrics-port", fmt::format("{} tasks of this node cannot share a port; give 0",
                                       options_.task->local_ranks));
  }
  options_.metrics_host = taken("metrics-host", parse_host(flags_.metrics_host));
  if (!is_numeric(options_.metrics_host)) {
    refuse("metrics-host", fmt::format("'{}' is not an IPv4 or IPv6 address; 0.0.0.0 is "
                                       "every address of this machine",
                                       options_.metrics_host));
  }
}

void OptionsBuilder::take_signals() {
  options_.end_signals = taken("signals-to-handle", parse_signals(flags_.signals_to_handle));
  options_.forward_signals = taken("forward-signals", parse_signals(flags_.forward_signals));
  for (const int signal : options_.forward_signals) {
    const auto& ends = options_.end_signals;
    if (std::find(ends.begin(), ends.end(), signal) == ends.end()) continue;
    refuse("forward-signals", fmt::format("{0} ends the run, so it cannot be forwarded; remove {0} "
                                          "here, or give --signals-to-handle a list without {0}",
                                          signal_name(signal)));
  }
}

void OptionsBuilder::take_times() {
  constexpr const char* kTorchsVariable = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
  const auto variable = environment_.get(kTorchsVariable);
  if (line_.find("shutdown-timeout") == nullptr && variable) {
    options_.shutdown_timeout = seconds_from(kTorchsVariable, *variable);
  } else {
    options_.shutdown_timeout = seconds_from("--shutdown-timeout", flags_.shutdown_timeout);
  }
  options_.heartbeat = seconds_from("--heartbeat", flags_.heartbeat);
  constexpr std::chrono::milliseconds kHeartbeatMin(100);
  if (options_.heartbeat.count() != 0 && options_.heartbeat < kHeartbeatMin) {
    refuse("heartbeat", flags_.heartbeat + " is less than 0.1; give at least 0.1, or 0 for none");
  }
  const bool has_timeout = line_.find("timeout") != nullptr || !flags_.timeout.empty();
  if (has_timeout) options_.timeout = some_seconds_from("--timeout", flags_.timeout);
  const bool has_limit = line_.find("hang-after") != nullptr || !flags_.hang_after.empty();
  if (has_limit) options_.hang_after = some_seconds_from("--hang-after", flags_.hang_after);
}

// Flags that matter only to Python are accepted if they change nothing.
void OptionsBuilder::check_what_is_not_used() const {
  constexpr auto kStartMethods = std::to_array<std::string_view>({"spawn", "fork", "forkserver"});
  if (std::find(kStartMethods.begin(), kStartMethods.end(), flags_.start_method) ==
      kStartMethods.end()) {
    refuse("start-method", "'" + flags_.start_method + "' is not spawn, fork or forkserver");
  }
  seconds_from("--monitor-interval", flags_.monitor_interval);
  if (flags_.event_log_handler != "null") {
    refuse("event-log-handler",
           "'" + flags_.event_log_handler +
               "' is a Python plug-in, which is not supported; remove it, or use "
               "--events FILE");
  }
  if (!flags_.logs_specs.empty()) {
    refuse("logs-specs",
           "'" + flags_.logs_specs + "' is a Python plug-in, which is not supported; remove it");
  }
}

}  // namespace

LaunchOptions launch_options(const LaunchFlags& flags, const CommandLine& line,
                             const Machine& machine, const Environment& environment) {
  return OptionsBuilder(flags, line, machine, environment).build();
}

}  // namespace distrun
