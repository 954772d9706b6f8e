#include "launcher/nodes/launch_nodes.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "launcher/plan/options.h"

namespace distrun {

namespace {

// The time from StopNode to NodeStopped, besides --shutdown-timeout: for SIGKILL, leaked processes
// and the network.
constexpr std::chrono::milliseconds kStopMargin =
    kWorkerKillTimeout + kLeakedProcessesTimeout + std::chrono::seconds(15);

int whole_ms(std::chrono::milliseconds time) {
  constexpr auto kMax = std::chrono::milliseconds(std::numeric_limits<int>::max());
  return static_cast<int>(std::min(time, kMax).count());
}

// Node 0 can compare values only if all nodes record them.
std::string records(const LaunchOptions& options) {
  if (options.digest_inputs) return "--save-digests or --compare-digests";
  return options.digest ? "--digest" : "";
}

}  // namespace

NodesPlan nodes_plan_of(const LaunchPlan& plan, const std::string& host) {
  const LaunchOptions& options = plan.options;
  return {
      .own = {.run_id = options.run_id,
              .node = options.node_rank,
              .nodes = options.nnodes,
              .workers = static_cast<int>(plan.workers.size()),
              .max_restarts = options.max_restarts,
              .hang_after_ms = whole_ms(options.hang_after.value_or(std::chrono::milliseconds(0))),
              .heartbeat_ms = whole_ms(options.heartbeat),
              .records = records(options),
              .role = options.role,
              .host = host},
      .node_0 = {options.master_addr, options.master_port},
      .join_timeout = options.join_timeout,
      .stop_patience = options.shutdown_timeout + std::chrono::seconds(4),
      .stop_timeout = options.shutdown_timeout + kStopMargin};
}

}  // namespace distrun
