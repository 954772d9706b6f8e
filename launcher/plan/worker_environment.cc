#include "launcher/plan/worker_environment.h"

#include <utility>

#include <fmt/format.h>

#include "common/operations/operation_pages.h"
#include "common/operations/operation_writer.h"
#include "common/os/signal_list.h"
#include "distrun/store_address.h"
#include "launcher/plan/log_choice.h"

namespace distrun {

namespace {

class Changes {
 public:
  explicit Changes(const Environment& inherited) : inherited_(inherited) {}

  void set(const std::string& name, std::string value) { changes_[name] = std::move(value); }
  void set_default(const std::string& name, const std::string& value) {
    if (!inherited_.get(name)) changes_[name] = value;
  }
  void unset(const std::string& name) { changes_[name] = std::nullopt; }
  VariableChanges take() { return std::move(changes_); }

 private:
  const Environment& inherited_;
  VariableChanges changes_;
};

// Of c10d's flight recorder (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp). Each is a prefix,
// which a rank follows.
constexpr const char* kFlightPipe = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE";
constexpr const char* kFlightDump = "TORCH_FR_DUMP_TEMP_FILE";
constexpr const char* kOldFlightDump = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE";

constexpr std::string_view kFlightName = "nccl_trace_rank_";

// "FOLDER/attempt_0/nccl_trace_rank_" with log files; else "FOLDER/attempt_0_nccl_trace_rank_".
std::string flight_prefix(const LaunchPlan& plan, const RunPlace& run) {
  return fmt::format("{}{}{}", attempt_folder(run.error_folder, run.attempt),
                     plan.options.log.keeps_files() ? '/' : '_', kFlightName);
}

// The user's value, but not that of an outer run, whose ranks have other numbers.
std::optional<std::string> users_prefix(const Environment& environment, const char* name) {
  auto prefix = environment.get(name);
  if (!prefix || !prefix->ends_with(kFlightName)) return prefix;
  const auto outer = environment.get("TORCHELASTIC_ERROR_FILE");
  const std::string folder = prefix->substr(0, prefix->rfind('/') + 1);
  return outer && outer->starts_with(folder) ? std::nullopt : prefix;
}

}  // namespace

VariableChanges worker_variables(const LaunchPlan& plan, const WorkerPlan& worker,
                                 const RunPlace& run) {
  const LaunchOptions& options = plan.options;
  const auto number = [](auto value) { return std::to_string(value); };

  Changes environment(plan.environment);
  const LocalPlace local = local_place(plan, worker.local_rank);
  const auto set_if_known = [&](const char* name, std::optional<int> value) {
    if (value) return environment.set(name, number(*value));
    environment.unset(name);
  };
  environment.set("LOCAL_RANK", number(options.virtual_local_rank ? 0 : local.rank.value()));
  if (options.virtual_local_rank) {
    // make_plan() has checked that every worker has a device.
    const auto device = device_of(plan, worker.local_rank);
    if (device) environment.set("CUDA_VISIBLE_DEVICES", *device);
  }
  environment.set("RANK", number(worker.rank.value()));
  set_if_known("GROUP_RANK", local.node);
  environment.set("ROLE_RANK", number(plan.role_rank_base + worker.local_rank.value()));
  environment.set("ROLE_NAME", options.role);
  environment.set("LOCAL_WORLD_SIZE", number(local.ranks));
  environment.set("WORLD_SIZE", number(plan.world_size));
  set_if_known("GROUP_WORLD_SIZE", local.nodes);
  environment.set("ROLE_WORLD_SIZE", number(plan.role_world_size));
  const bool meets_in_file = options.store.kind == StoreChoice::Kind::kFile;
  if (meets_in_file) {
    environment.set("DISTRUN_INIT_METHOD", run.init_method);
    environment.unset("MASTER_ADDR");
    environment.unset("MASTER_PORT");
    environment.unset("DISTRUN_STORE");
  } else {
    environment.unset("DISTRUN_INIT_METHOD");
    environment.set("MASTER_ADDR", options.master_addr);
    environment.set("MASTER_PORT", number(run.store_port));
    environment.set("DISTRUN_STORE", StoreAddress{options.master_addr, run.store_port}.text());
  }
  // Python compares this with "True".
  environment.set("TORCHELASTIC_USE_AGENT_STORE", meets_in_file ? "False" : "True");
  environment.set("TORCHELASTIC_RESTART_COUNT", number(run.attempt));
  environment.set("TORCHELASTIC_MAX_RESTARTS", number(options.max_restarts));
  environment.set("TORCHELASTIC_RUN_ID", options.run_id);
  environment.set("TORCHELASTIC_ERROR_FILE", error_file(plan, run, worker));
  environment.set("TORCHELASTIC_SIGNALS_TO_HANDLE", signals_text(options.end_signals));
  // Otherwise Gloo publishes the address of the host name, which is a loopback address on Debian.
  if (!run.interface.empty()) {
    environment.set_default("GLOO_SOCKET_IFNAME", run.interface);
    environment.set_default("NCCL_SOCKET_IFNAME", "=" + run.interface);  // "=": exactly this name.
  }
  const auto set_or_unset = [&](const char* name, bool is_set, const std::string& value) {
    if (is_set) environment.set(name, value);
    if (!is_set && plan.environment.get(name)) environment.unset(name);  // An outer run's.
  };
  set_or_unset(
      kOperationsVariable, !run.operations.empty(),
      OperationPages::address(run.operations, static_cast<std::size_t>(worker.local_rank.value())));
  set_or_unset("DISTRUN_DIGEST", options.digest, options.digest_inputs ? "all" : "outputs");
  set_or_unset("DISTRUN_COLLECTIVES", options.collectives || options.digest, "1");
  environment.set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  // NCCL's own service for debugging sends data every second, which would look like progress.
  if (options.hang_after) environment.set_default("NCCL_RAS_ENABLE", "0");
  if (!run.error_folder.empty()) {
    const std::string prefix = flight_prefix(plan, run);
    if (!users_prefix(plan.environment, kFlightPipe)) environment.set(kFlightPipe, prefix);
    // PyTorch warns if the old name is set.
    const bool has_dump = users_prefix(plan.environment, kFlightDump) ||
                          users_prefix(plan.environment, kOldFlightDump);
    if (!has_dump) environment.set(kFlightDump, prefix);
  }
  // Otherwise every worker would start a thread per core.
  if (local.ranks > 1) environment.set_default("OMP_NUM_THREADS", "1");
  return environment.take();
}

Environment worker_environment(const LaunchPlan& plan, const WorkerPlan& worker,
                               const RunPlace& run) {
  Environment environment = plan.environment;
  for (const auto& [name, value] : worker_variables(plan, worker, run)) {
    if (value) {
      environment.set(name, *value);
    } else {
      environment.unset(name);
    }
  }
  return environment;
}

Result<std::string> device_of(const LaunchPlan& plan, LocalRank worker) {
  const auto visible = plan.environment.get("CUDA_VISIBLE_DEVICES");
  const bool has_own =
      plan.options.task && visible && !visible->empty() && visible->find(',') == std::string::npos;
  return device_of(has_own ? LocalRank(0) : local_place(plan, worker).rank, plan.environment);
}

Result<std::string> device_of(LocalRank worker, const Environment& environment) {
  const auto visible = environment.get("CUDA_VISIBLE_DEVICES");
  if (!visible) return std::to_string(worker.value());
  std::size_t begin = 0;
  for (int before = 0; before < worker.value(); ++before) {
    const std::size_t comma = visible->find(',', begin);
    if (comma == std::string::npos) {
      return Error{ErrorKind::kInvalidArgument,
                   fmt::format("--virtual-local-rank: CUDA_VISIBLE_DEVICES={} has no device for "
                               "local rank {}; list one device for each worker",
                               *visible, worker.value())};
    }
    begin = comma + 1;
  }
  std::string device = visible->substr(begin, visible->find(',', begin) - begin);
  std::erase(device, ' ');
  return device;
}

std::optional<FlightFiles> flight_files(const LaunchPlan& plan, const RunPlace& run,
                                        const WorkerPlan& worker) {
  if (run.error_folder.empty()) return std::nullopt;
  const auto prefix = [&](const char* name) { return users_prefix(plan.environment, name); };
  const std::string own = flight_prefix(plan, run);
  const auto pipe = prefix(kFlightPipe), dump = prefix(kFlightDump);
  const std::string rank = std::to_string(worker.rank.value());
  return FlightFiles{.pipe = pipe.value_or(own) + rank + ".pipe",
                     .dump = dump.value_or(prefix(kOldFlightDump).value_or(own)) + rank,
                     .owns_pipe = !pipe};
}

std::string error_file(const LaunchPlan& plan, const RunPlace& run, const WorkerPlan& worker) {
  if (run.error_folder.empty()) return "";
  // Only log files need folders; creating them is the slowest part of starting a worker.
  if (!plan.options.log.keeps_files()) {
    return fmt::format("{}_{}_error.json", attempt_folder(run.error_folder, run.attempt),
                       worker.local_rank.value());
  }
  return worker_folder(run.error_folder, worker.local_rank, run.attempt) + "/error.json";
}

}  // namespace distrun
