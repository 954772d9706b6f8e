// NodesHost is node 0's side of a run of several nodes: it accepts other nodes at the store's port,
// and carries out the coordinator's decisions.
//
//     NodesHost host(io, own_request, {.join_timeout = …}, handlers);
//     StoreServerInternals::listen(io, {}, [&](auto socket, auto received) {
//       host.take(std::move(socket), std::move(received));
//     });
//     host.join();
//
// Trust: like the store, it lets any client join that can connect to the port. The number of
// connections is limited; one that does not ask to join in time, or sends invalid data, is closed.
#pragma once

#include <map>
#include <memory>
#include <string_view>

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
    std::chrono::milliseconds request_timeout = std::chrono::seconds(10);  // Until JoinRequest.
    // After this time, it reports nodes that have not joined, or have not ended their workers.
    std::chrono::milliseconds patience = std::chrono::seconds(5);
    std::chrono::milliseconds stop_patience = std::chrono::seconds(35);
    // A node that has not answered for so long is silent.
    std::chrono::milliseconds silence = std::chrono::milliseconds(2500);
    std::chrono::milliseconds heartbeat = std::chrono::seconds(5);  // See heartbeat.h; 0: none.
    std::size_t text_bytes_max = kNodeTextBytesMax;                 // Of each text of another node.
  };

  // `own` is node 0's request; the others must agree with it.
  NodesHost(boost::asio::io_context& io, const JoinRequest& own, const Options& options,
            NodesHandlers handlers);
  ~NodesHost() override;

  // Takes a node's connection to the store's port.
  void take(boost::asio::ip::tcp::socket socket, std::string received);

  // For the store, StoreServerInternals::CheckKey: refuses torchrun's agents until the run starts.
  // An agent of this run ends the run, because it takes the place of a node.
  Result<bool> check_key(const boost::asio::ip::tcp::endpoint& client, std::string_view key);

  // NodesCoordinator::missing().
  std::string missing() const;

  void join() override;
  void report(const NodeReport& report) override;
  void send_operations(int, std::vector<RankOperation>, std::uint64_t) override {}
  void send_flight(const RankFlight&) override {}
  void send_text(int node, std::string text) override;
  std::chrono::nanoseconds clock_ahead(int node) const override;
  std::vector<RanksOfNode> silent() const override;
  std::string own_address() const override;
  void close() override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the handlers that `io` still holds.
};

}  // namespace distrun
