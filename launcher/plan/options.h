// LaunchOptions is what `distrun launch` was asked for, after its flags have been
// read and before anything is decided.  Names, defaults and meanings are
// torchrun's (torch/distributed/run.py).
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/log_choice.h"
#include "launcher/plan/store_choice.h"

namespace distrun {

// How long the launcher waits for a worker that it has sent SIGKILL.
inline constexpr std::chrono::milliseconds kWorkerKillTimeout = std::chrono::seconds(30);
// How long it waits for leaked processes that it kills.  It does nothing else meanwhile, so this is
// shorter than what nodes wait for each other.
inline constexpr std::chrono::milliseconds kLeakedProcessesTimeout = std::chrono::seconds(10);

struct LaunchOptions {
  int nproc_per_node = 1;  // Workers on this node.
  int nnodes = 1;          // Nodes of the run; this one is node_rank.
  int node_rank = 0;
  std::chrono::milliseconds join_timeout = std::chrono::seconds(900);  // For all nodes to come.
  int max_restarts = 0;                   // So many new attempts follow a failed one.
  std::string role = "default";           // ROLE_NAME.
  std::string run_id;                     // TORCHELASTIC_RUN_ID.
  StoreChoice store;                      // Where the workers meet.
  std::string master_addr = "127.0.0.1";  // Where a TCP store listens: a numeric address.
  std::uint16_t master_port = 0;          // 0: a free port.
  bool same_user = false;                 // Only this user's processes, and root's, may use it.
  bool module = false;                    // -m: the program is a Python module.
  bool no_python = false;                 // Never put python3 before the program.
  bool python = false;                    // Do, whatever its name is, unless no_python.
  bool virtual_local_rank = false;        // LOCAL_RANK is 0, CUDA_VISIBLE_DEVICES one device.
  std::vector<int> end_signals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};  // These end the run.
  std::vector<int> forward_signals;                                   // These go to the workers.
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(30);  // SIGTERM to SIGKILL.
  std::optional<std::chrono::milliseconds> timeout;                       // Of the whole run.
  LogChoice log;  // Where the workers' output goes, and how.
  std::string program;
  std::vector<std::string> arguments;
};

}  // namespace distrun
