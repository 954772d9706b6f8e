// NodesMember is the side of every node but 0 in a run of several nodes: it finds node 0 at
// --master-addr and --master-port, asks to be let in, and passes reports and orders on.
//
//     NodesMember member(io, request, {.address = {"gpu-0", 29500}}, handlers);
//     member.join();
//
// Where node 0 does not listen yet, or has no address yet, it tries again, with pauses, until
// `join_timeout` is over.  Whoever else listens there is told from node 0 by its answer, or by the
// lack of one: that is an error, and soon.  Where node 0 is lost once the run has begun, the order
// is to stop; before, it is looked for again.
#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "distrun/store_address.h"
#include "launcher/nodes/nodes.h"

namespace distrun {

class NodesMember : public Nodes {
 public:
  struct Options {
    StoreAddress address;  // Of node 0.
    std::chrono::milliseconds join_timeout = std::chrono::seconds(900);
    std::chrono::milliseconds answer_timeout = std::chrono::seconds(10);  // From who listens.
    std::chrono::milliseconds patience = std::chrono::seconds(5);  // Then it says who it waits for.
  };

  NodesMember(boost::asio::io_context& io, const JoinRequest& request, const Options& options,
              NodesHandlers handlers);
  ~NodesMember() override;

  void join() override;
  void report(const NodeReport& report) override;
  std::string own_address() const override;
  void close() override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // Shared with the handlers that `io` still holds.
};

}  // namespace distrun
