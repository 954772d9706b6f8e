// make_nodes connects this node to the others of a run. It is for every command that runs on
// several nodes; launch_nodes.h says what `distrun launch` needs.
//
//     const MadeNodes made = make_nodes(io, plan, handlers);
//     if (request.node == 0) {
//       const auto host = listen_address("--master-addr", "gpu-0", std::chrono::seconds(10));
//       server = StoreServerInternals::listen(io, {.host = *host, .port = 29500}, made.take,
//                                             made.check_key);
//     }
//     made.nodes->join();
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "distrun/store_address.h"
#include "launcher/nodes/nodes.h"

namespace distrun {

struct NodesPlan {
  JoinRequest own;      // Node 0 accepts only nodes whose requests agree with its own.
  StoreAddress node_0;  // Unused on node 0.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(900);
  // On node 0, from StopNode on: until it reports which nodes have not ended their workers, and
  // until these nodes are lost.
  std::chrono::milliseconds stop_patience = std::chrono::seconds(35);
  std::chrono::milliseconds stop_timeout = std::chrono::seconds(90);
};

struct MadeNodes {
  std::unique_ptr<Nodes> nodes;
  // On node 0: the store passes it each connection from a node. `nodes` must outlive its calls.
  std::function<void(boost::asio::ip::tcp::socket socket, std::string received)> take;
  // On node 0: NodesHost::check_key(), for the store. `nodes` must outlive its calls.
  std::function<Result<bool>(const boost::asio::ip::tcp::endpoint& client, std::string_view key)>
      check_key;
};

MadeNodes make_nodes(boost::asio::io_context& io, const NodesPlan& plan, NodesHandlers handlers);

}  // namespace distrun
