// NodeLink connects the driver to the other nodes of a run: it turns their orders into the
// supervisor's events, and sends reports. With one node it does nothing.
//
//     NodeLink nodes(io, plan, "gpu-7", handlers);
//     store.open(nodes.take_node());
//     nodes.join();
//     nodes.report(NodeSucceeded{0});
//
// Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/nodes/make_nodes.h"
#include "launcher/plan/plan.h"
#include "launcher/run/supervisor.h"
#include "store/server/store_server_internals.h"

namespace distrun {

class NodeLink {
 public:
  // See NodesHandlers.
  struct Handlers {
    std::function<void(SupervisorEvent event)> on_order;
    std::function<void()> on_renew_store;
    std::function<void(const Error& error)> on_error;
    std::function<void(const std::vector<RanksOfNode>& nodes)> on_ranks;
    std::function<void(const NodeOperations& operations)> on_operations;
    std::function<void(const RankFlight& flight)> on_flight;
    std::function<void(const std::string& text)> on_notice;
  };

  // Sets the ranks in `plan` when node 0 starts an attempt. `host` is this node's name.
  NodeLink(boost::asio::io_context& io, LaunchPlan& plan, const std::string& host,
           Handlers handlers);

  bool has_others() const { return made_.nodes != nullptr; }

  bool is_node_0() const { return static_cast<bool>(made_.take); }  // With several nodes.

  // On node 0: the store passes it each node's connection.
  const StoreServerInternals::TakeNode& take_node() const { return made_.take; }

  // On node 0: the store passes it the keys of its clients, until the run starts.
  const StoreServerInternals::CheckKey& check_key() const { return made_.check_key; }

  // The network interface to the other nodes; empty if it is loopback or not yet known.
  std::string interface() const;

  void join();
  void report(const NodeReport& report);
  void send_operations(int attempt, std::vector<RankOperation> operations, std::uint64_t missed);
  void send_flight(const RankFlight& flight);
  std::vector<RanksOfNode> silent() const;
  void close();

 private:
  MadeNodes made_;
};

}  // namespace distrun
