#include "launcher/nodes/make_nodes.h"

#include <utility>

#include "launcher/nodes/nodes_host.h"
#include "launcher/nodes/nodes_member.h"

namespace distrun {

MadeNodes make_nodes(boost::asio::io_context& io, const NodesPlan& plan, NodesHandlers handlers) {
  const std::chrono::milliseconds heartbeat(plan.own.heartbeat_ms);
  if (plan.own.node > 0) {
    const NodesMember::Options member{
        .address = plan.node_0, .join_timeout = plan.join_timeout, .heartbeat = heartbeat};
    return {std::make_unique<NodesMember>(io, plan.own, member, std::move(handlers)), nullptr,
            nullptr};
  }
  auto nodes = std::make_unique<NodesHost>(io, plan.own,
                                           NodesHost::Options{.join_timeout = plan.join_timeout,
                                                              .stop_timeout = plan.stop_timeout,
                                                              .stop_patience = plan.stop_patience,
                                                              .heartbeat = heartbeat},
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
