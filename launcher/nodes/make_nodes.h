// make_nodes connects this node to the others of the run, according to the plan.
//
//     auto nodes = make_nodes(io, plan, "gpu-7", handlers);
//     StoreServerInternals::listen(io, {}, nodes.take, nodes.check_key);   // on node 0
//     nodes.nodes->join();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "launcher/nodes/nodes.h"
#include "launcher/plan/plan.h"

namespace distrun {

struct MadeNodes {
  std::unique_ptr<Nodes> nodes;
  // On node 0: the store passes it each connection from a node. `nodes` must outlive its calls.
  std::function<void(boost::asio::ip::tcp::socket socket, std::string received)> take;
  // On node 0: NodesHost::check_key(), for the store. `nodes` must outlive its calls.
  std::function<Result<bool>(const boost::asio::ip::tcp::endpoint& client, std::string_view key)>
      check_key;
};

// `host` is this node's name in messages.
MadeNodes make_nodes(boost::asio::io_context& io, const LaunchPlan& plan, const std::string& host,
                     NodesHandlers handlers);

}  // namespace distrun
