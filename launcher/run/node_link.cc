#include "launcher/run/node_link.h"

#include <utility>
#include <variant>

#include "common/os/network_interface.h"
#include "launcher/nodes/launch_nodes.h"

namespace distrun {

namespace {

SupervisorEvent event_of_order(LaunchPlan& plan, const NodeOrder& order) {
  if (const auto* start = std::get_if<StartNode>(&order)) {
    place_ranks(plan, {.rank_base = start->rank_base,
                       .world_size = start->world_size,
                       .role_rank_base = start->role_rank_base,
                       .role_world_size = start->role_world_size});
    return StartOrdered{start->attempt};
  }
  if (const auto* stop = std::get_if<StopNode>(&order)) {
    return StopOrdered{stop->verdict, stop->is_last};
  }
  return FinishOrdered{std::get<FinishNode>(order).verdict};
}

}  // namespace

NodeLink::NodeLink(boost::asio::io_context& io, LaunchPlan& plan, const std::string& host,
                   Handlers handlers) {
  if (plan.options.nnodes == 1) return;
  made_ = make_nodes(
      io, nodes_plan_of(plan, host),
      {.on_order = [&plan, on_order = std::move(handlers.on_order)](
                       const NodeOrder& order) { on_order(event_of_order(plan, order)); },
       .on_renew_store = [on_renew = std::move(handlers.on_renew_store)](int) { on_renew(); },
       .on_error = std::move(handlers.on_error),
       .on_ranks = std::move(handlers.on_ranks),
       .on_operations = std::move(handlers.on_operations),
       .on_flight = std::move(handlers.on_flight),
       .on_notice = std::move(handlers.on_notice)});
}

std::string NodeLink::interface() const {
  return made_.nodes ? interface_of(made_.nodes->own_address()).value_or("") : "";
}

void NodeLink::join() {
  if (made_.nodes) made_.nodes->join();
}

void NodeLink::report(const NodeReport& report) {
  if (made_.nodes) made_.nodes->report(report);
}

void NodeLink::send_operations(int attempt, std::vector<RankOperation> operations,
                               std::uint64_t missed) {
  if (made_.nodes) made_.nodes->send_operations(attempt, std::move(operations), missed);
}

void NodeLink::send_flight(const RankFlight& flight) {
  if (made_.nodes) made_.nodes->send_flight(flight);
}

std::vector<RanksOfNode> NodeLink::silent() const {
  return made_.nodes ? made_.nodes->silent() : std::vector<RanksOfNode>();
}

void NodeLink::close() {
  if (made_.nodes) made_.nodes->close();
}

}  // namespace distrun
