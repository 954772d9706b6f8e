// NodesMember is the side of all nodes but node 0: it connects to node 0 at --master-addr and
// --master-port, asks to join, and passes on reports and orders.
//
//     NodesMember member(io, request, {.address = {"gpu-0", 29500}}, handlers);
//     member.join();
//
// If node 0 does not listen yet, or its name does not resolve yet, it retries up to `join_timeout`.
// Another server at that port, which answers wrongly or not at all, is an error. If node 0 is lost,
// the member connects again; after the run has started, the order is StopNode.
#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "distrun/store_address.h"
#include "launcher/nodes/nodes.h"

namespace distrun {

class NodesMember : public Nodes {
 public:
  struct Options {
    StoreAddress address;  // Node 0's.
    std::chrono::milliseconds join_timeout = std::chrono::seconds(900);
    std::chrono::milliseconds answer_timeout = std::chrono::seconds(10);  // To JoinRequest.
    std::chrono::milliseconds probe_after = std::chrono::seconds(2);      // Without an answer.
    std::chrono::milliseconds patience = std::chrono::seconds(5);  // Then it reports that it waits.
    std::chrono::milliseconds heartbeat = std::chrono::seconds(5);  // See heartbeat.h; 0: none.
    std::size_t text_bytes_max = kNodeTextBytesMax;                 // Of each text of node 0.
    std::function<OperationTime()> clock = std::chrono::system_clock::now;
  };

  NodesMember(boost::asio::io_context& io, const JoinRequest& request, const Options& options,
              NodesHandlers handlers);
  ~NodesMember() override;

  void join() override;
  void report(const NodeReport& report) override;
  void send_operations(int attempt, std::vector<RankOperation> operations,
                       std::uint64_t missed) override;
  void send_flight(const RankFlight& flight) override;
  void send_text(int node, std::string text) override;
  std::chrono::nanoseconds clock_ahead(int) const override { return {}; }
  std::vector<RanksOfNode> silent() const override { return {}; }
  std::string own_address() const override;
  void close() override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the handlers that `io` still holds.
};

}  // namespace distrun
