// NodesHost is node 0's side of a run of several nodes: it takes the connections of the others
// from the store's port, and carries out what the coordinator decides.
//
//     NodesHost host(io, own_request, {.join_timeout = …}, handlers);
//     StoreServerInternals::listen(io, {}, [&](auto socket, auto received) {
//       host.take(std::move(socket), std::move(received));
//     });
//     host.join();
//
// Trust: who can connect to the port can join, as with the store itself.  A connection that does
// not say in time who it is, or says what no node says, is closed; their number is bounded.
#pragma once

#include <map>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/nodes/node_channel.h"
#include "launcher/nodes/nodes.h"
#include "launcher/nodes/nodes_coordinator.h"

namespace distrun {

class NodesHost : public Nodes {
 public:
  struct Options {
    std::chrono::milliseconds join_timeout = std::chrono::seconds(900);
    std::chrono::milliseconds stop_timeout = std::chrono::seconds(90);
    std::chrono::milliseconds request_timeout = std::chrono::seconds(10);  // To JoinRequest.
    // Then it says who is missing, or has not ended its workers.
    std::chrono::milliseconds patience = std::chrono::seconds(5);
    std::chrono::milliseconds stop_patience = std::chrono::seconds(35);
  };

  // `own` says what is to be said of node 0 itself, and what the others must agree with.
  NodesHost(boost::asio::io_context& io, const JoinRequest& own, const Options& options,
            NodesHandlers handlers);
  ~NodesHost() override;

  // A connection to the store's port, by a node.
  void take(boost::asio::ip::tcp::socket socket, std::string received);

  // As the coordinator's: who has not come yet.
  std::string missing() const;

  void join() override;
  void report(const NodeReport& report) override;
  std::string own_address() const override;
  void close() override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the handlers that `io` still holds.
};

}  // namespace distrun
