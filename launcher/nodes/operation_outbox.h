// OperationOutbox keeps the operations that a node has not yet sent to node 0. What is too much is
// left out and counted, so that a slow network never delays a run.
//
//     OperationOutbox outbox;
//     outbox.begin(attempt);
//     outbox.add(std::move(operations), missed);
//     while (!outbox.is_empty() && …there is room…) channel->send(outbox.next());
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "launcher/nodes/node_operations.h"

namespace distrun {

class OperationOutbox {
 public:
  // Of the operations.
  static constexpr std::size_t kMax = 16384;

  // Forgets those of the previous attempt.
  void begin(int attempt);
  int attempt() const { return attempt_; }

  // `missed`: operations that are lost already.
  void add(std::vector<RankOperation> operations, std::uint64_t missed);

  bool is_empty() const { return operations_.empty() && missed_ == 0; }

  // The oldest ones that fit into a message.
  NodeOperations next();

  // Leaves out the rest. The message only counts it.
  NodeOperations give_up();

 private:
  int attempt_ = 0;
  std::deque<RankOperation> operations_;
  std::uint64_t missed_ = 0;
};

}  // namespace distrun
