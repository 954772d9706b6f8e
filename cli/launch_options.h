// Turns the flags of `distrun launch` into LaunchOptions: CLI11 fills in LaunchFlags, and
// launch_options() interprets them.
//
//     LaunchFlags flags;
//     bind_flag(launch, "nnodes", flags.nnodes);
//     …
//     const auto machine = this_machine(environment);
//     const LaunchOptions options = launch_options(flags, line, machine, environment);
#pragma once

#include <optional>
#include <string>

#include "cli/command_line.h"
#include "cli/log_flags.h"
#include "common/os/environment.h"
#include "launcher/plan/options.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

// The value of each flag as text, or whether it is given.
struct LaunchFlags {
  bool as_torchrun = false;     // distrun runs under the name torchrun.
  bool as_check = false;        // distrun check: distrun itself is the program.
  bool is_placed = false;       // An engine has set --nnodes or --node-rank.
  bool shares_console = false;  // As LaunchOptions says, like task.
  std::optional<TaskPlace> task;
  std::string nproc_per_node = "1", nnodes = "1", node_rank = "0", max_restarts = "0";
  bool standalone = false;
  std::string rdzv_backend = "static", rdzv_endpoint, rdzv_conf;
  std::string run_id;  // --rdzv-id.
  std::string local_addr, master_addr = "127.0.0.1", master_port, store = "tcp";
  bool same_user = false;
  std::string hosts, ssh = "ssh", pass_env;  // hosts_launch.h
  bool check = false;                        // check_first.h
  bool display_map = false;
  bool collectives = false, digest = false;
  std::string role = "default";
  std::string shutdown_timeout = "30", heartbeat = "5", monitor_interval = "0.1";  // Seconds.
  std::string timeout, hang_after;  // Seconds; empty: none.
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT", forward_signals;
  bool module = false, no_python = false, run_path = false, virtual_local_rank = false;
  std::string numa_binding;
  LogFlags log;
  std::string termination_log;  // A path; empty: none. If it is not given, there is a default.
  std::string events, html, trace, record;  // Paths; empty: none.
  std::string metrics_port, metrics_host = "127.0.0.1";
  std::string save_digests, compare_digests;  // Paths; empty: none.
  bool dry_run = false;
  std::string print_completion;  // Never set: read() answers it.
  std::string start_method = "spawn", event_log_handler = "null", logs_specs;
};

// `line` has the program, and the flags that were given. Throws CLI::ParseError, which names the
// flag or variable with a wrong value.
LaunchOptions launch_options(const LaunchFlags& flags, const CommandLine& line,
                             const Machine& machine, const Environment& environment);

}  // namespace distrun
