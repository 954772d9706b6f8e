// NodesCoordinator decides, on node 0, for all nodes of a run: whom it lets in, when an attempt
// begins and with which ranks, and who is to blame when it fails.
//
//     NodesCoordinator coordinator({.nodes = 3, .run_id = "none"}, now);
//     for (const NodeAction& action : coordinator.step(NodeAsked{peer, request}, now)) …
//     timer.expires_at(*coordinator.next_deadline());
//
//     joining ──all are here──▶ running ──all have succeeded──────────────▶ finished
//        │                         │ first failure, or a node is lost          ▲
//        └── time-out, signal ──▶ stopping ──all are done, or lost─────────────┤
//                                  ▲   └── again, where restarts are left ──▶ running
//
// - Ranks are in the order of the nodes' ranks; nodes may have different numbers of workers.
// - The culprit is the first failure that reaches node 0.  A worker's failure that a node has
//   reported stands, also where that node is lost next.  What comes later is a consequence.
// - A node whose workers have all succeeded waits for the others, for as long as they run; a
//   failure elsewhere ends the run for it too.  If it is lost then, nothing of the run is.
// - No wait is without a bound: joining has a time-out, running ends with a report or a lost
//   connection, stopping has a time-out.
//
// Node 0 is one of the nodes: it joins and reports like the others, as peer 0.  Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/nodes/node_messages.h"

namespace distrun {

// A connection of a node.
using NodePeer = std::uint64_t;
inline constexpr NodePeer kOwnNode = 0;

// Events: what has happened.
struct NodeAsked {
  NodePeer peer;
  JoinRequest request;
};
struct NodeReported {
  NodePeer peer;
  NodeReport report;
};
struct NodeLost {  // Its connection has ended, or it sent what no node sends.
  NodePeer peer;
  std::string reason;  // "its connection has ended".
};
struct NodesTick {};
using NodeEvent = std::variant<NodeAsked, NodeReported, NodeLost, NodesTick>;

// Actions: what is to be done, in this order.
struct AcceptNode {  // From now on orders for `node` go to `peer`.
  NodePeer peer;
  int node;
};
struct RefuseNode {  // Tell it why, then close the connection.
  NodePeer peer;
  std::string reason;
};
struct RenewStore {  // The workers of the attempt to come meet in an empty table.
  int attempt;
};
struct OrderNode {
  int node;
  NodeOrder order;
};
using NodeAction = std::variant<AcceptNode, RefuseNode, RenewStore, OrderNode>;
using NodeActions = std::vector<NodeAction>;

class NodesCoordinator {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  struct Options {
    int nodes = 1;
    std::string run_id;
    int max_restarts = 0;
    std::chrono::milliseconds join_timeout = std::chrono::seconds(900);
    // From StopNode on; longer than a node takes to give its workers up.
    std::chrono::milliseconds stop_timeout = std::chrono::seconds(90);
  };

  // Joining begins.
  NodesCoordinator(const Options& options, TimePoint now);

  // What `event` leads to.  One that makes no sense (a report of an attempt that is over, of a
  // peer that has not joined) changes nothing.
  NodeActions step(const NodeEvent& event, TimePoint now);

  // When step(NodesTick{}, now) is to be called, if nothing happens before.
  std::optional<TimePoint> next_deadline() const { return deadline_; }

  // "nodes 1, 3; only node 0 (gpu-0), node 2 (gpu-2) are here"; empty when all nodes are here.
  std::string missing() const;

  // For whom the present phase waits: missing(), or "node 1 (gpu-1) to end its workers"; empty for
  // nobody.
  std::string awaited() const;

  bool is_finished() const { return phase_ == Phase::kFinished; }

 private:
  std::string absent_nodes() const;   // "nodes 1, 3"; empty when all nodes are here.
  std::string present_nodes() const;  // "only node 0 (gpu-0) is here".
  enum class Phase { kJoining, kRunning, kStopping, kFinished };
  enum class State { kMissing, kHere, kRunning, kSucceeded, kStopped, kLost };
  struct Node {
    State state = State::kMissing;
    NodePeer peer = 0;
    JoinRequest request;
  };

  void handle(const NodeAsked& event, TimePoint now);
  void handle(const NodeReported& event, TimePoint now);
  void handle(const NodeLost& event, TimePoint now);
  void handle(const NodesTick& event, TimePoint now);
  void handle(Node& node, const NodeFailed& report, TimePoint now);
  void handle(Node& node, const NodeSucceeded& report, TimePoint now);
  void handle(Node& node, const NodeStopped& report, TimePoint now);

  std::string reason_to_refuse(const JoinRequest& request) const;
  void begin_attempt();
  void stop(const NodesVerdict& verdict, bool may_restart, TimePoint now);
  void send_stop();
  void stop_if_all_have_succeeded();
  void go_on_if_all_have_stopped();
  void finish();
  void order(const Node& node, NodeOrder order);
  void note(const Node& node, const std::string& text);

  bool all(std::initializer_list<State> states) const;
  bool is_there(const Node& node) const;
  int number(const Node& node) const { return static_cast<int>(&node - nodes_.data()); }
  std::string name(const Node& node) const;
  Node* find(NodePeer peer);

  Options options_;
  Phase phase_ = Phase::kJoining;
  std::vector<Node> nodes_;
  int attempt_ = 0;
  bool restarts_ = false;  // While stopping: another attempt is to follow.
  NodesVerdict verdict_;
  std::optional<TimePoint> deadline_;  // Of the phase.
  NodeActions actions_;                // Of the step under way.
};

}  // namespace distrun
