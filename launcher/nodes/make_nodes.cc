#include "launcher/nodes/make_nodes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "launcher/nodes/nodes_host.h"
#include "launcher/nodes/nodes_member.h"
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

MadeNodes make_nodes(boost::asio::io_context& io, const LaunchPlan& plan, const std::string& host,
                     NodesHandlers handlers) {
  const LaunchOptions& options = plan.options;
  const JoinRequest request{
      .run_id = options.run_id,
      .node = options.node_rank,
      .nodes = options.nnodes,
      .workers = static_cast<int>(plan.workers.size()),
      .max_restarts = options.max_restarts,
      .hang_after_ms = whole_ms(options.hang_after.value_or(std::chrono::milliseconds(0))),
      .heartbeat_ms = whole_ms(options.heartbeat),
      .records = records(options),
      .role = options.role,
      .host = host};
  if (options.node_rank > 0) {
    const NodesMember::Options member{.address = {options.master_addr, options.master_port},
                                      .join_timeout = options.join_timeout,
                                      .heartbeat = options.heartbeat};
    return {std::make_unique<NodesMember>(io, request, member, std::move(handlers)), nullptr,
            nullptr};
  }
  auto nodes = std::make_unique<NodesHost>(
      io, request,
      NodesHost::Options{.join_timeout = options.join_timeout,
                         .stop_timeout = options.shutdown_timeout + kStopMargin,
                         .stop_patience = options.shutdown_timeout + std::chrono::seconds(4),
                         .heartbeat = options.heartbeat},
      std::move(handlers));
  const auto take = [to = nodes.get()](boost::asio::ip::tcp::socket socket, std::string received) {
    to->take(std::move(socket), std::move(received));
  };
  const auto check_key = [by = nodes.get()](const boost::asio::ip::tcp::endpoint& client,
                                            std::string_view key) {
    return by->check_key(client, key);
  };
  return {std::move(nodes), take, check_key};
}

}  // namespace distrun
