// The environment of a worker: flags become variables.
//
//     Environment environment = worker_environment(plan, plan.workers[3], run);
//
// The variables are torchrun's (torch/distributed/elastic/agent/server/local_elastic_agent.py):
//
//     LOCAL_RANK RANK GROUP_RANK ROLE_RANK ROLE_NAME
//     LOCAL_WORLD_SIZE WORLD_SIZE GROUP_WORLD_SIZE ROLE_WORLD_SIZE
//     MASTER_ADDR MASTER_PORT                the TCP store, which the launcher hosts
//     DISTRUN_STORE                          the TCP store as HOST:PORT, for `distrun store`
//     DISTRUN_INIT_METHOD                    file://PATH of a store file (not in torchrun);
//                                            replaces the three variables above
//     TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID
//     TORCHELASTIC_USE_AGENT_STORE           True: every rank is a client of the TCP store
//     TORCHELASTIC_ERROR_FILE                where a worker may write why it failed
//     TORCHELASTIC_SIGNALS_TO_HANDLE TORCH_NCCL_ASYNC_ERROR_HANDLING
//     TORCH_NCCL_DEBUG_INFO_PIPE_FILE        if unset: where NCCL's flight recorder is asked for a
//                                            dump (not in torchrun)
//     TORCH_FR_DUMP_TEMP_FILE                where it writes the dump, if neither this nor its old
//                                            name TORCH_NCCL_DEBUG_INFO_TEMP_FILE is set (not in
//                                            torchrun)
//     NCCL_RAS_ENABLE                        0, if unset, under --hang-after (not in torchrun)
//     OMP_NUM_THREADS                        1, if unset and several workers run
//     CUDA_VISIBLE_DEVICES                   under --virtual-local-rank: only the worker's device
//
// Inherited variables of the other kind of store are removed, so that a nested run does not use the
// outer store. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/plan/plan.h"

namespace distrun {

// Known only after the run has started.
struct RunPlace {
  int attempt = 0;               // TORCHELASTIC_RESTART_COUNT.
  std::uint16_t store_port = 0;  // TCP store.
  std::string init_method;       // URL of the store file, if there is one.
  std::string interface;         // Network interface to the other nodes; empty: one node.
  std::string error_folder;      // From RunFiles; empty: no error files.
  std::string operations;        // OperationPages::file(); empty: operations are not recorded.
};

Environment worker_environment(const LaunchPlan& plan, const WorkerPlan& worker,
                               const RunPlace& run);

// Differences from the inherited environment: a value, or nullopt for a removed variable.
using VariableChanges = std::map<std::string, std::optional<std::string>, std::less<>>;
VariableChanges worker_variables(const LaunchPlan& plan, const WorkerPlan& worker,
                                 const RunPlace& run);

// The worker's entry of CUDA_VISIBLE_DEVICES, or its local rank if that is unset. Fails with
// kInvalidArgument if the entry is missing.
Result<std::string> device_of(LocalRank worker, const Environment& environment);
// The same for a worker of a plan. An engine may show each task only its own device.
Result<std::string> device_of(const LaunchPlan& plan, LocalRank worker);

// The worker's error file, or empty. With log files, torchrun's layout:
// "FOLDER/attempt_0/3/error.json"; else "FOLDER/attempt_0_3_error.json".
std::string error_file(const LaunchPlan& plan, const RunPlace& run, const WorkerPlan& worker);

// Where c10d's flight recorder of the worker is asked for a dump, and where it writes the dump.
struct FlightFiles {
  std::string pipe, dump;
  bool owns_pipe = false;  // It is in the run's folder.
};
// nullopt: it cannot be asked.
std::optional<FlightFiles> flight_files(const LaunchPlan& plan, const RunPlace& run,
                                        const WorkerPlan& worker);

}  // namespace distrun
