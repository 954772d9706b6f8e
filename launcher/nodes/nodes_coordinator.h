// NodesCoordinator decides for all nodes of a run, on node 0: who may join, when attempts start and
// with which ranks, and which failure is the cause.
//
//     NodesCoordinator coordinator({.nodes = 3, .run_id = "none"}, now);
//     for (const NodeAction& action : coordinator.step(NodeAsked{peer, request}, now)) …
//     timer.expires_at(*coordinator.next_deadline());
//
//     joining ──all have joined──▶ running ──all have succeeded────────────▶ finished
//        │                         │ first failure, or a node is lost          ▲
//        └── time-out, signal ──▶ stopping ──all have stopped, or are lost─────┤
//                                  ▲   └── again, if restarts are left ────▶ running
//
// - Ranks follow the order of --node-rank; nodes may have different numbers of workers.
// - The cause is the first failure that reaches node 0, even if its node is lost later.
// - After success, a node waits for the others without a timeout; a failure elsewhere stops it.
//   Losing such a node does not fail the run.
// - If no running node makes progress (--hang-after), the run hangs: no node is to blame.
// - Every wait ends: joining and stopping time out; running ends with a report or a lost
//   connection.
//
// Node 0 joins and reports like the other nodes, as peer 0. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/nodes/node_messages.h"
#include "launcher/nodes/nodes.h"

namespace distrun {

// A node's connection.
using NodePeer = std::uint64_t;
inline constexpr NodePeer kOwnNode = 0;

// Events.
struct NodeAsked {
  NodePeer peer;
  JoinRequest request;
};
struct NodeReported {
  NodePeer peer;
  NodeReport report;
};
struct NodeLost {  // Its connection has ended, or it sent an invalid message.
  NodePeer peer;
  std::string reason;
  bool is_by_node_0 = false;  // It has given up node 0, and says so itself.
};
struct TorchrunCame {  // One of its agents, instead of a node.
  std::string address;
};
struct NodesTick {};
using NodeEvent = std::variant<NodeAsked, NodeReported, NodeLost, TorchrunCame, NodesTick>;

// Actions, to be performed in order.
struct AcceptNode {  // From now on send orders for `node` to `peer`.
  NodePeer peer;
  int node;
};
struct RefuseNode {  // Send the reason, then close the connection.
  NodePeer peer;
  std::string reason;
};
struct RenewStore {  // The next attempt needs an empty store.
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
    std::string command = "distrun launch";  // JoinRequest::command.
    std::string run_id;
    int max_restarts = 0;
    std::chrono::milliseconds hang_after{0};  // 0: never.
    std::chrono::milliseconds heartbeat{0};   // 0: none.
    std::string records;                      // JoinRequest::records.
    std::chrono::milliseconds join_timeout = std::chrono::seconds(900);
    // From StopNode on; must exceed the time that a node needs to end its workers.
    std::chrono::milliseconds stop_timeout = std::chrono::seconds(90);
  };

  NodesCoordinator(const Options& options, TimePoint now);

  // Returns the resulting actions. Ignores events that do not fit: reports of an earlier attempt,
  // or from a peer that has not joined.
  NodeActions step(const NodeEvent& event, TimePoint now);

  // When to call step(NodesTick{}, now).
  std::optional<TimePoint> next_deadline() const { return deadline_; }

  // "node 1 (gpu-1)"
  std::string name(int node) const { return name(nodes_[static_cast<std::size_t>(node)]); }

  // "nodes 1, 3; only node 0 (gpu-0), node 2 (gpu-2) have joined", or empty.
  std::string missing() const;

  // missing() or "node 1 (gpu-1) to end its workers", by phase; may be empty.
  std::string awaited() const;

  // Complete when all nodes have joined.
  std::vector<RanksOfNode> ranks() const;

  bool is_joining() const { return phase_ == Phase::kJoining; }
  bool is_stopping() const { return phase_ == Phase::kStopping; }
  bool is_finished() const { return phase_ == Phase::kFinished; }

 private:
  std::string absent_nodes() const;   // "nodes 1, 3", or empty.
  std::string present_nodes() const;  // "only node 0 (gpu-0) has joined".
  enum class Phase { kJoining, kRunning, kStopping, kFinished };
  enum class State { kMissing, kHere, kRunning, kSucceeded, kStopped, kLost };
  struct Node {
    State state = State::kMissing;
    NodePeer peer = 0;
    JoinRequest request;
    bool is_quiet = false;  // In kRunning: it makes no progress.
  };

  void handle(const NodeAsked& event, TimePoint now);
  void handle(const NodeReported& event, TimePoint now);
  void handle(const NodeLost& event, TimePoint now);
  void handle(const TorchrunCame& event, TimePoint now);
  void handle(const NodesTick& event, TimePoint now);
  void handle(Node& node, const NodeFailed& report, TimePoint now);
  void handle(Node& node, const NodeQuiet& report, TimePoint now);
  void handle(Node& node, const NodeSucceeded& report, TimePoint now);
  void handle(Node& node, const NodeStopped& report, TimePoint now);

  std::string reason_to_refuse(const JoinRequest& request) const;
  void begin_attempt();
  void stop(const NodesVerdict& verdict, bool may_restart, TimePoint now);
  void send_stop();
  void stop_if_all_have_succeeded();
  void stop_if_all_are_quiet(TimePoint now);
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
  bool restarts_ = false;  // While stopping: another attempt follows.
  NodesVerdict verdict_;
  std::optional<TimePoint> deadline_;        // Of phase_.
  std::optional<TimePoint> no_hang_before_;  // In kRunning, after a node has succeeded.
  NodeActions actions_;                      // Of the present step.
};

}  // namespace distrun
