// RunCollectives follows the collectives of a run: it reads what the workers of this node record,
// and compares the ranks. With several nodes, the others send theirs to node 0, which compares all.
//
//     RunCollectives collectives(io, plan, nodes, context, [&](const RunEvent& event) { … });
//     place.operations = collectives.open();
//     collectives.begin_attempt(attempt);
//     collectives.take(operations);             // on node 0, from another node
//     collectives.line()                        // "rank 2 has not entered all_reduce, number 8 of
//     …" collectives.end_workers();                // no worker is left on this node
//     collectives.end_attempt();                // no worker is left on any node
//
// Thread safety: the thread of `io` only.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "evidence/operations/collective_check.h"
#include "launcher/nodes/node_operations.h"
#include "launcher/outcome/run_end.h"
#include "launcher/outcome/run_event.h"
#include "launcher/plan/plan.h"
#include "launcher/run/launch_context.h"
#include "launcher/run/node_link.h"
#include "launcher/run/operation_watch.h"

namespace distrun {

class RunCollectives {
 public:
  // `tell` gets stragglers and differences: on node 0 only, those of all nodes. The arguments must
  // outlive it.
  RunCollectives(boost::asio::io_context& io, const LaunchPlan& plan, NodeLink& nodes,
                 const LaunchContext& context, std::function<void(const RunEvent&)> tell);
  RunCollectives(const RunCollectives&) = delete;
  RunCollectives& operator=(const RunCollectives&) = delete;

  // As OperationWatch::open().
  std::string open() { return watch_.open(); }

  // Requires that no worker runs.
  void begin_attempt(int attempt);

  void take(const NodeOperations& operations);

  // Reads the rest of this node's workers. With one node, this ends the attempt.
  void end_workers();
  void end_attempt();

  // After end_attempt(): how the ranks disagreed, which may be the reason why the culprit failed;
  // empty if they did not.
  std::string disagreement(const RunEnd& end) const;

  // The collectives that ranks wait in, and the missing ranks; empty if no rank is in one. On other
  // nodes than node 0, only the ranks of this node are known.
  std::string line();

  // Of this node's workers.
  std::vector<OperationWatch::LastOperation> last_operations() { return watch_.last_operations(); }
  std::uint64_t begun() const { return watch_.begun(); }

 private:
  OperationWatch::Handlers watch_handlers();
  CollectiveCheck::Handlers check_handlers(const LaunchContext& context);
  void warn_of_other_world_size();
  void warn_of_no_collectives();
  void pass_on();

  const LaunchPlan& plan_;
  NodeLink& nodes_;
  const LaunchContext& context_;
  const std::function<void(const RunEvent&)> tell_;
  const bool is_other_node_;  // Than node 0.
  int attempt_ = 0;
  bool has_ended_ = true, has_collectives_ = false;
  std::string disagreement_;  // The first.
  std::set<int> incomplete_;  // Ranks some of whose operations are lost.
  std::vector<RankOperation> to_send_;
  std::uint64_t missed_to_send_ = 0;
  CollectiveCheck check_;
  OperationWatch watch_;
};

}  // namespace distrun
