// Nodes connects the driver to the other nodes of a run: the driver reports events of its own
// workers, and receives orders.
//
//     nodes->join();                                 // StartNode comes when all nodes have joined
//     nodes->report(NodeFailed{attempt, …});         // StopNode comes to all nodes
//     nodes->report(NodeStopped{attempt});           // StartNode of another attempt, or FinishNode
//     nodes->close();
//
// NodeFailed and NodeStopped always lead to an order: if node 0 is lost, StopNode is created here.
// A node that was stopped for good need not wait for FinishNode.
//
// NodesHost (node 0) and NodesMember (other nodes) implement it for fixed node numbers and a port
// of node 0. Elastic nodes, or torchrun's agents (which use the store's keys torchelastic/…), would
// be further implementations.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "distrun/result.h"
#include "launcher/nodes/node_messages.h"

namespace distrun {

// The workers of one node.
struct RanksOfNode {
  int node = 0;
  std::string host, role;
  int first = 0, count = 1;  // Its ranks: `first` and the next ones.
};

// Called from the event loop, never within a call of Nodes, except on_renew_store within report().
struct NodesHandlers {
  std::function<void(const NodeOrder& order)> on_order;
  // On node 0, before StartNode of a new attempt: empty the store.
  std::function<void(int attempt)> on_renew_store;
  // The run cannot start on this node. No orders come before or after.
  std::function<void(const Error& error)> on_error;
  // On node 0, before the first attempt: the ranks of each node.
  std::function<void(const std::vector<RanksOfNode>& nodes)> on_ranks;
  // On node 0: what workers of another node have recorded. Node and clock error are set, and the
  // times are by the clock of node 0.
  std::function<void(const NodeOperations& operations)> on_operations;
  // On node 0: what the flight recorder of a rank of another node knew when its attempt ended.
  std::function<void(const RankFlight& flight)> on_flight;
  // A text from a node; on the other nodes, from node 0.
  std::function<void(int node, const std::string& text)> on_text;
  // Occasional messages for users: missing nodes, refused nodes.
  std::function<void(const std::string& text)> on_notice;
};

class Nodes {
 public:
  virtual ~Nodes() = default;

  // Call it once, first.
  virtual void join() = 0;
  virtual void report(const NodeReport& report) = 0;

  // Sends collectives to node 0, or leaves some out if the network is slow. On node 0, nothing.
  // `missed`: operations that are lost already.
  virtual void send_operations(int attempt, std::vector<RankOperation> operations,
                               std::uint64_t missed) = 0;

  // To node 0. On node 0, nothing.
  virtual void send_flight(const RankFlight& flight) = 0;

  // Sends a text to another node, whose on_text gets it: from node 0 to `node`, and from the other
  // nodes to node 0, whatever `node` is. Call it only after StartNode. `text` is UTF-8, of at most
  // kNodeTextBytesMax bytes; JSON has only ASCII after dump(-1, ' ', true).
  //
  // Texts arrive whole and in the order of the calls, or not at all because the connection has
  // ended. NodeSucceeded, NodeStopped, StartNode and FinishNode arrive after the texts that were
  // sent before them. Everything else, such as StopNode, does not wait for texts. If the node reads
  // so slowly that 256 MiB wait, the connection ends.
  virtual void send_text(int node, std::string text) = 0;

  // On node 0: by how much the clock of another node is ahead of this one's; 0 if unknown.
  virtual std::chrono::nanoseconds clock_ahead(int node) const = 0;

  // On node 0: the nodes that have not answered for 2.5 seconds. Of the others, it knows all that
  // they had read until then.
  virtual std::vector<RanksOfNode> silent() const = 0;

  // This node's IP address on a connection to another node; empty before StartNode.
  virtual std::string own_address() const = 0;

  // No handler is called after this. The event loop still delivers what was sent, for at most 20
  // seconds.
  virtual void close() = 0;
};

}  // namespace distrun
