#include "launcher/nodes/operation_outbox.h"

#include <utility>

#include "launcher/nodes/node_messages.h"

namespace distrun {

void OperationOutbox::begin(int attempt) {
  attempt_ = attempt;
  operations_.clear();
  missed_ = 0;
}

void OperationOutbox::add(std::vector<RankOperation> operations, std::uint64_t missed) {
  missed_ += missed;
  for (RankOperation& one : operations) operations_.push_back(std::move(one));
  while (operations_.size() > kMax) {
    operations_.pop_front();
    ++missed_;
  }
}

NodeOperations OperationOutbox::give_up() {
  missed_ += operations_.size();
  operations_.clear();
  return next();
}

NodeOperations OperationOutbox::next() {
  constexpr std::size_t kHeadBytes = kKiB;
  NodeOperations message{
      .attempt = attempt_, .operations = {}, .missed = std::exchange(missed_, 0)};
  std::size_t bytes = kHeadBytes;
  while (!operations_.empty()) {
    bytes += json_bytes_max(operations_.front().operation);
    if (bytes > kNodeMessageBytesMax) break;
    message.operations.push_back(std::move(operations_.front()));
    operations_.pop_front();
  }
  return message;
}

}  // namespace distrun
