// Messages between the nodes of a run. Node 0 decides. Other nodes ask to join, *report* what
// happens to their workers, and obey its *orders*.
//
//     node 1                                  node 0
//       JoinRequest ─────────────────────────▶
//       ◀──────────────── JoinAccepted, or JoinRefused and the end
//                … until all nodes have joined …
//       ◀──────────────────────────── StartNode      attempt 0, its ranks
//       NodeOperations ──────────────────────▶       what its workers have recorded
//       NodeQuiet ───────────────────────────▶       with --hang-after: it makes no progress
//       NodeFailed | NodeSucceeded ──────────▶
//       ◀───────────────────────────── StopNode      with the verdict: a node has failed
//       RankFlight ──────────────────────────▶       of each worker that has told where its GPU is
//       NodeStopped ─────────────────────────▶       all its workers have ended
//       ◀────────────── StartNode | FinishNode       the next attempt, or the end
//
// Meanwhile, node 0 asks for the time of the other nodes: AskTime, TellTime. Between StartNode and
// the end, node 0 and each other node exchange texts, piece by piece: NodeText.
//
// A message is one line of JSON. A connection starts with the byte kNodeGreeting
// (store/protocol/request.h), because nodes share the port with the workers' store.
//
//     {"type": "start", "attempt": 0, "rank_base": 4, "world_size": 8, …}
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "common/units.h"
#include "distrun/result.h"
#include "launcher/nodes/node_operations.h"
#include "launcher/nodes/rank_flight.h"
#include "launcher/outcome/nodes_verdict.h"

namespace distrun {

// Nodes with different versions refuse each other.
inline constexpr int kNodeProtocol = 7;

// Longer messages are refused; long fields, such as a worker's last lines, are cut.
inline constexpr std::size_t kNodeMessageBytesMax = 64 * kKiB;

// A node that sends a longer text is disconnected.
inline constexpr std::size_t kNodeTextBytesMax = 64 * kMiB;

struct JoinRequest {
  int protocol = kNodeProtocol;
  std::string command = "distrun launch";  // What the user started on this node.
  std::string run_id;
  int node = 0;     // --node-rank
  int nodes = 1;    // --nnodes
  int workers = 1;  // On this node.
  int max_restarts = 0;
  int hang_after_ms = 0;  // --hang-after; 0: none.
  int heartbeat_ms = 0;   // --heartbeat; 0: none.
  std::string records;    // The flag that makes its workers record values; may be empty.
  std::string role;
  std::string host;  // Its name in messages to users.
  friend bool operator==(const JoinRequest&, const JoinRequest&) = default;
};
struct JoinAccepted {
  std::string host;  // Node 0's name.
  friend bool operator==(const JoinAccepted&, const JoinAccepted&) = default;
};
struct JoinRefused {
  std::string reason;
  friend bool operator==(const JoinRefused&, const JoinRefused&) = default;
};

// Reports. Each names its attempt.
struct NodeFailed {  // Or interrupted; it is already stopping its workers.
  int attempt = 0;
  bool may_restart = false;  // A worker has failed; another attempt may succeed.
  NodesVerdict verdict;      // Node 0 fills in node and host.
  friend bool operator==(const NodeFailed&, const NodeFailed&) = default;
};
struct NodeQuiet {  // Its workers have made no progress for --hang-after, or make progress again.
  int attempt = 0;
  bool is_quiet = true;
  friend bool operator==(const NodeQuiet&, const NodeQuiet&) = default;
};
struct NodeSucceeded {  // All its workers exited with 0; no process remains.
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
  int rank_base = 0, world_size = 1;            // RANK of its first worker; WORLD_SIZE.
  int role_rank_base = 0, role_world_size = 1;  // Within the same role.
  friend bool operator==(const StartNode&, const StartNode&) = default;
};
struct StopNode {
  int attempt = 0;
  bool is_last = true;  // No attempt follows.
  NodesVerdict verdict;
  friend bool operator==(const StopNode&, const StopNode&) = default;
};
struct FinishNode {  // All nodes have ended.
  NodesVerdict verdict;
  friend bool operator==(const FinishNode&, const FinishNode&) = default;
};

struct AskTime {
  std::int64_t question = 0;  // TellTime repeats it.
  friend bool operator==(const AskTime&, const AskTime&) = default;
};
struct TellTime {
  std::int64_t question = 0;
  OperationTime time;
  friend bool operator==(const TellTime&, const TellTime&) = default;
};

// In both directions: a piece of a text for what runs on the nodes. The next piece follows, unless
// it is the last one; other messages may come between them.
struct NodeText {
  std::string piece;
  bool is_last = true;
  friend bool operator==(const NodeText&, const NodeText&) = default;
};

using NodeReport = std::variant<NodeFailed, NodeQuiet, NodeSucceeded, NodeStopped>;
using NodeOrder = std::variant<StartNode, StopNode, FinishNode>;
using NodeMessage = std::variant<JoinRequest, JoinAccepted, JoinRefused, NodeFailed, NodeQuiet,
                                 NodeSucceeded, NodeStopped, StartNode, StopNode, FinishNode,
                                 NodeOperations, RankFlight, AskTime, TellTime, NodeText>;

NodeMessage message_of(const NodeReport& report);
NodeMessage message_of(const NodeOrder& order);

// One line with its newline; at most kNodeMessageBytesMax bytes.
std::string to_line(const NodeMessage& message);

// `line` has no newline. Fails with kProtocol for other data and for impossible values: ranks
// beyond the world size, negative counts.
Result<NodeMessage> node_message_from(std::string_view line);

}  // namespace distrun
