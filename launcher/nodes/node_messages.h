// What the nodes of a run say to each other.  Node 0 decides; every other node asks to be let
// in, *reports* what becomes of its workers, and does what node 0 *orders*.
//
//     node 1                                  node 0
//       JoinRequest ─────────────────────────▶
//       ◀──────────────── JoinAccepted, or JoinRefused and the end
//                … until all have come …
//       ◀──────────────────────────── StartNode      attempt 0, its ranks
//       NodeFailed | NodeSucceeded ──────────▶
//       ◀───────────────────────────── StopNode      with the verdict: some node has failed
//       NodeStopped ─────────────────────────▶       none of its workers is left
//       ◀────────────── StartNode | FinishNode       the next attempt, or the end
//
// On the wire a message is one line of JSON, and a connection begins with the byte
// kNodeGreeting of store/protocol/request.h: the nodes use the port of the workers' store.
//
//     {"type": "start", "attempt": 0, "rank_base": 4, "world_size": 8, …}
//
// Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>

#include "common/units.h"
#include "distrun/result.h"
#include "launcher/outcome/nodes_verdict.h"

namespace distrun {

// Nodes of different numbers do not understand each other, and say so.
inline constexpr int kNodeProtocol = 1;

// A message that is longer is refused; what may be longer in it (a worker's last lines) is cut.
inline constexpr std::size_t kNodeMessageBytesMax = 64 * kKiB;

// To be let in.
struct JoinRequest {
  int protocol = kNodeProtocol;
  std::string run_id;
  int node = 0;     // Its --node-rank.
  int nodes = 1;    // Its --nnodes.
  int workers = 1;  // That it is going to start.
  int max_restarts = 0;
  std::string role;
  std::string host;  // Its name, for people.
  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};
struct JoinAccepted {
  std::string host;  // Of node 0.
  friend bool operator==(const JoinAccepted&, const JoinAccepted&) = default;
};
struct JoinRefused {
  std::string reason;
  friend bool operator==(const JoinRefused&, const JoinRefused&) = default;
};

// Reports.  Each names the attempt that it is about.
struct NodeFailed {  // Or was told to end: it is already ending its workers.
  int attempt = 0;
  bool may_restart = false;  // Another attempt may help: a worker has failed.
  NodesVerdict verdict;      // Its node and host are filled in by node 0.
  friend bool operator==(const NodeFailed&, const NodeFailed&) = default;
};
struct NodeSucceeded {  // All of its workers exited with 0, and none is left.
  int attempt = 0;
  friend bool operator==(const NodeSucceeded&, const NodeSucceeded&) = default;
};
struct NodeStopped {  // After NodeFailed or StopNode.
  int attempt = 0;
  friend bool operator==(const NodeStopped&, const NodeStopped&) = default;
};

// Orders.
struct StartNode {
  int attempt = 0;
  int rank_base = 0, world_size = 1;            // Its first worker's RANK; WORLD_SIZE.
  int role_rank_base = 0, role_world_size = 1;  // Among the workers of the same role.
  friend bool operator==(const StartNode&, const StartNode&) = default;
};
struct StopNode {
  int attempt = 0;
  bool is_last = true;  // No other attempt follows, whatever happens.
  NodesVerdict verdict;
  friend bool operator==(const StopNode&, const StopNode&) = default;
};
struct FinishNode {  // Every node is done.
  NodesVerdict verdict;
  friend bool operator==(const FinishNode&, const FinishNode&) = default;
};

using NodeReport = std::variant<NodeFailed, NodeSucceeded, NodeStopped>;
using NodeOrder = std::variant<StartNode, StopNode, FinishNode>;
using NodeMessage = std::variant<JoinRequest, JoinAccepted, JoinRefused, NodeFailed, NodeSucceeded,
                                 NodeStopped, StartNode, StopNode, FinishNode>;

NodeMessage message_of(const NodeReport& report);
NodeMessage message_of(const NodeOrder& order);

// One line, with its end; at most kNodeMessageBytesMax bytes.
std::string to_line(const NodeMessage& message);

// `line` is without its end.  Fails with kProtocol where it is none of the above, or says what
// cannot be: ranks beyond the world, negative counts.
Result<NodeMessage> node_message_from(std::string_view line);

}  // namespace distrun
