// The environment of a worker: here a flag becomes a variable.
//
//     Environment environment = worker_environment(plan, plan.workers[3], run);
//
// The variables are torchrun's (torch/distributed/elastic/agent/server/
// local_elastic_agent.py), so that a program finds what it would find there:
//
//     LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME
//     LOCAL_WORLD_SIZE WORLD_SIZE GROUP_WORLD_SIZE ROLE_WORLD_SIZE
//     MASTER_ADDR MASTER_PORT                the TCP store, which the launcher hosts
//     DISTRUN_INIT_METHOD                    file://PATH: the store is a file, of which torchrun
//                                            knows nothing; MASTER_ADDR and MASTER_PORT are not set
//     DISTRUN_STORE                          the same, as HOST:PORT: for `distrun store`
//     TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID
//     TORCHELASTIC_USE_AGENT_STORE           True: every rank is a client of the TCP store
//     TORCHELASTIC_ERROR_FILE                where a worker may leave why it failed
//     TORCHELASTIC_SIGNALS_TO_HANDLE TORCH_NCCL_ASYNC_ERROR_HANDLING
//     OMP_NUM_THREADS                        1, where unset and several workers run
//     CUDA_VISIBLE_DEVICES                   under --virtual-local-rank: the worker's device alone
//
// Those of the other store are removed where inherited: a run within another would meet in the
// outer one's place, or wait where nobody listens.  Everything else is inherited.  Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/plan/plan.h"

namespace distrun {

// What is known only once the run has begun.
struct RunPlace {
  int attempt = 0;               // TORCHELASTIC_RESTART_COUNT.
  std::uint16_t store_port = 0;  // Of the TCP store.
  std::string init_method;       // The URL of the file, where the store is one.
  std::string interface;         // That leads to the other nodes; empty for none.
  std::string error_folder;      // Of RunFiles; empty for no error files.
};

Environment worker_environment(const LaunchPlan& plan, const WorkerPlan& worker,
                               const RunPlace& run);

// What that is beyond the environment that is inherited: a variable's value, or nothing where it is
// removed.
using VariableChanges = std::map<std::string, std::optional<std::string>, std::less<>>;
VariableChanges worker_variables(const LaunchPlan& plan, const WorkerPlan& worker,
                                 const RunPlace& run);

// The worker's entry of CUDA_VISIBLE_DEVICES; where that is not set, its local rank.  Fails with
// kInvalidArgument where there are fewer.
Result<std::string> device_of(LocalRank worker, const Environment& environment);

// Where the worker's error file goes; empty where it has none.  With log files, torchrun's layout:
// "FOLDER/attempt_0/3/error.json"; else "FOLDER/attempt_0_3_error.json".
std::string error_file(const LaunchPlan& plan, const RunPlace& run, const WorkerPlan& worker);

}  // namespace distrun
