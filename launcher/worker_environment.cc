#include "launcher/worker_environment.h"

#include "launcher/log_choice.h"
#include "store/address.h"

namespace distrun {

Environment worker_environment(const LaunchPlan& plan, const WorkerPlan& worker,
                               const RunPlace& run) {
  const LaunchOptions& options = plan.options;
  const auto number = [](auto value) { return std::to_string(value); };

  Environment environment = plan.environment;
  environment.set("LOCAL_RANK", number(worker.local_rank.value()));
  environment.set("RANK", number(worker.rank.value()));
  environment.set("GROUP_RANK", number(options.node_rank));
  environment.set("ROLE_RANK", number(plan.role_rank_base + worker.local_rank.value()));
  environment.set("ROLE_NAME", options.role);
  environment.set("LOCAL_WORLD_SIZE", number(plan.workers.size()));
  environment.set("WORLD_SIZE", number(plan.world_size));
  environment.set("GROUP_WORLD_SIZE", number(options.nnodes));
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
  // Python compares with "True".
  environment.set("TORCHELASTIC_USE_AGENT_STORE", meets_in_file ? "False" : "True");
  environment.set("TORCHELASTIC_RESTART_COUNT", number(run.attempt));
  environment.set("TORCHELASTIC_MAX_RESTARTS", number(options.max_restarts));
  environment.set("TORCHELASTIC_RUN_ID", options.run_id);
  environment.set("TORCHELASTIC_ERROR_FILE", error_file(run, worker));
  environment.set_default("TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
  environment.set_default("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  // Without it every worker would start a thread per core.
  if (plan.workers.size() > 1) environment.set_default("OMP_NUM_THREADS", "1");
  return environment;
}

std::string error_file(const RunPlace& run, const WorkerPlan& worker) {
  if (run.error_folder.empty()) return "";
  return worker_folder(run.error_folder, worker.local_rank, run.attempt) + "/error.json";
}

}  // namespace distrun
