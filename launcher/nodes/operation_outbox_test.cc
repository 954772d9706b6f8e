#include "launcher/nodes/operation_outbox.h"

#include <gtest/gtest.h>

#include "launcher/nodes/node_messages.h"

namespace distrun {
namespace {

std::vector<RankOperation> operations(std::size_t count, const std::string& text = "all_reduce") {
  std::vector<RankOperation> all;
  for (std::uint32_t i = 1; i <= count; ++i) {
    all.push_back({Rank(1),
                   {.number = i,
                    .op = text,
                    .dtype = text,
                    .sizes = text,
                    .group = text,
                    .group_size = 2,
                    .sequence = i,
                    .ended = OperationTime(std::chrono::nanoseconds(i)),
                    .input_digest = ~std::uint64_t{0},
                    .output_digests = BlockDigests{~std::uint32_t{0}}}});
  }
  return all;
}

TEST(OperationOutboxTest, SendsAllInMessagesOfAllowedSize) {
  OperationOutbox outbox;
  outbox.begin(3);
  outbox.add(operations(1000, std::string(64, '"')), 5);
  std::vector<RankOperation> got;
  std::uint64_t missed = 0;
  while (!outbox.is_empty()) {
    const NodeOperations message = outbox.next();
    EXPECT_EQ(message.attempt, 3);
    EXPECT_LE(to_line(message).size(), kNodeMessageBytesMax);
    got.insert(got.end(), message.operations.begin(), message.operations.end());
    missed += message.missed;
  }
  EXPECT_EQ(got, operations(1000, std::string(64, '"')));
  EXPECT_EQ(missed, 5U);
}

TEST(OperationOutboxTest, LeavesOutTheOldestAndCountsThem) {
  OperationOutbox outbox;
  outbox.add(operations(OperationOutbox::kMax + 10), 0);
  const NodeOperations message = outbox.next();
  EXPECT_EQ(message.missed, 10U);
  EXPECT_EQ(message.operations.front().operation.number, 11U);
}

TEST(OperationOutboxTest, CountsWhatItGivesUp) {
  OperationOutbox outbox;
  outbox.add(operations(10), 2);
  EXPECT_EQ(outbox.give_up(), NodeOperations{.missed = 12});
  EXPECT_TRUE(outbox.is_empty());
}

TEST(OperationOutboxTest, ForgetsThePreviousAttempt) {
  OperationOutbox outbox;
  outbox.add(operations(10), 2);
  outbox.begin(1);
  EXPECT_TRUE(outbox.is_empty());
  EXPECT_EQ(outbox.next(), NodeOperations{.attempt = 1});
}

}  // namespace
}  // namespace distrun
