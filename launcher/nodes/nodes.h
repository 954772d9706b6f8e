// Nodes is what the driver needs of the other nodes of a run: how it tells them what becomes of
// its own workers, and learns what it has to do.
//
//     nodes->join();                                 // Start comes when all have
//     nodes->report(NodeFailed{attempt, …});         // Stop comes for all
//     nodes->report(NodeStopped{attempt});           // Start of another attempt, or Finish
//     nodes->close();
//
// Every report but that of a run's success is answered by an order, sooner or later: where node 0
// is lost, by a StopNode that is made here.  A node that has been stopped for good need not wait
// for FinishNode.
//
// It is a seam: NodesHost (node 0) and NodesMember (any other) meet at a port of node 0 and have
// their number from the start.  Nodes that come and go, or that are Python's (whose agents meet in
// the keys torchelastic/… of the store), would be further implementations.
#pragma once

#include <functional>
#include <string>

#include "distrun/result.h"
#include "launcher/nodes/node_messages.h"

namespace distrun {

// Called from the event loop, never from within a call of Nodes; but for on_renew_store, which
// report() may call.
struct NodesHandlers {
  std::function<void(const NodeOrder& order)> on_order;
  // On node 0, before StartNode of another attempt than the first: the store has to be emptied.
  std::function<void(int attempt)> on_renew_store;
  // The run cannot begin on this node.  Comes before any order, and instead of it.
  std::function<void(const Error& error)> on_error;
  // For people, rarely: who is waited for, who has been turned away.
  std::function<void(const std::string& text)> on_notice;
};

class Nodes {
 public:
  virtual ~Nodes() = default;

  // Called once, first.
  virtual void join() = 0;
  virtual void report(const NodeReport& report) = 0;

  // This node's numeric address in a connection to another node; empty before StartNode.
  virtual std::string own_address() const = 0;

  // No handler is called after it.  What was sent is still delivered by the event loop.
  virtual void close() = 0;
};

}  // namespace distrun
