// LaunchOptions holds the parsed flags of `distrun launch`. Names, defaults and meanings are
// torchrun's (torch/distributed/run.py).
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/engines/engine_place.h"
#include "launcher/plan/log_choice.h"
#include "launcher/plan/numa_binding.h"
#include "launcher/plan/store_choice.h"

namespace distrun {

// The maximum time from SIGKILL to a worker's end.
inline constexpr std::chrono::milliseconds kWorkerKillTimeout = std::chrono::seconds(30);
// The same for leaked processes. Shorter than the timeouts between nodes, because it blocks the
// launcher.
inline constexpr std::chrono::milliseconds kLeakedProcessesTimeout = std::chrono::seconds(10);

struct LaunchOptions {
  int nproc_per_node = 1;
  int nnodes = 1;
  int node_rank = 0;
  bool shares_console = false;       // All nodes print to one console, as the tasks of Slurm do.
  std::optional<int> engine_socket;  // By which the only worker talks to its engine.
  std::optional<TaskPlace> task;  // An engine started this distrun as one rank: a node of the run.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(900);  // For all nodes to join.
  int max_restarts = 0;                   // New attempts after a failed one.
  bool is_quiet = false;                  // Node 0 does not print where it listens.
  std::string role = "default";           // ROLE_NAME.
  std::string run_id;                     // TORCHELASTIC_RUN_ID.
  StoreChoice store;                      // Where the workers rendezvous.
  std::string master_addr = "127.0.0.1";  // Where a TCP store listens; an IP address on one node.
  std::string address_flag = "--master-addr";  // What gave master_addr, for messages.
  std::uint16_t master_port = 0;               // 0: a free port.
  bool same_user = false;           // Only processes of this user and root may use the store.
  bool display_map = false;         // Node 0 prints the ranks of each node.
  bool module = false;              // -m
  bool no_python = false;           // Never put python3 before the program.
  bool python = false;              // Always put it, unless no_python.
  bool virtual_local_rank = false;  // LOCAL_RANK is 0, CUDA_VISIBLE_DEVICES one device.
  std::optional<NumaBinding> numa_binding;  // Workers run only on CPUs near their GPUs.
  std::vector<int> end_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  std::vector<int> forward_signals;
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);  // SIGTERM to SIGKILL.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(5);          // Between nodes; 0: none.
  std::optional<std::chrono::milliseconds> timeout;                       // Of the whole run.
  std::optional<std::chrono::milliseconds> hang_after;  // Without progress of any worker.
  bool collectives = false;  // Python workers record their operations, as C++ workers always do.
  bool expects_collectives = false;  // The user is told if none is recorded.
  bool digest = false;               // Operations are recorded with digests of what ranks receive.
  bool digest_inputs = false;        // And of what they pass.
  std::optional<std::uint16_t> metrics_port;  // 0: a free one.
  std::string metrics_host = "127.0.0.1";     // Numeric.
  LogChoice log;
  std::string program;
  std::vector<std::string> arguments;
};

}  // namespace distrun
