#include "testsuites/testing/operation_times.h"

#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/gloo/gloo.h"

namespace distrun {
namespace {

// The recorder is the process's, so each test checks only the operations that it has started.
class OperationTimesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { record_operation_times(); }

  c10::intrusive_ptr<c10d::Backend> group(int rank, int ranks) {
    return make_gloo_backend(
        {.store = store_, .rank = rank, .size = ranks, .timeout = std::chrono::seconds(30)});
  }

  std::vector<TimedOperation> started_here() const {
    std::vector<TimedOperation> all = operation_times().operations;
    std::erase_if(all, [&](const TimedOperation& one) { return one.began < begin_; });
    return all;
  }

  // Waits until one of Gloo's threads starts it.
  std::optional<TimedOperation> first_started_here() const {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      if (const auto all = started_here(); !all.empty()) return all.front();
      std::this_thread::yield();
    }
    return std::nullopt;
  }

  static void all_reduce(c10d::Backend& group, at::IntArrayRef sizes) {
    std::vector<at::Tensor> tensors = {at::ones(sizes)};
    group.allreduce(tensors)->wait();
  }

 private:
  const WallTime begin_ = wall_time_now();
  const c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(OperationTimesTest, HasNameInputsStartAndEndInOrder) {
  const auto one = group(0, 1);
  all_reduce(*one, {3, 2});
  one->barrier()->wait();
  const WallTime end = wall_time_now();
  const auto operations = started_here();
  ASSERT_EQ(operations.size(), 2U);
  EXPECT_EQ(operations[0].op, "allreduce");
  EXPECT_EQ(operations[0].tensors, "Float [3, 2]");
  EXPECT_EQ(operations[1].op, "barrier");
  EXPECT_EQ(operations[1].tensors, "");
  for (const TimedOperation& operation : operations) {
    ASSERT_TRUE(operation.ended.has_value());
    EXPECT_LE(operation.began, *operation.ended);
    EXPECT_LE(*operation.ended, end);
  }
  EXPECT_LE(operations[0].ended, operations[1].began);
}

TEST_F(OperationTimesTest, AnOperationThatWaitsForPeersHasNoEnd) {
  std::promise<void> looked;
  const auto peer = std::async(std::launch::async, [&] {
    const auto two = group(1, 2);
    looked.get_future().wait_for(std::chrono::seconds(30));
    std::vector<at::Tensor> received = {at::ones({5})};
    two->recv(received, 0, /*tag=*/1)->wait();
    all_reduce(*two, {5});
  });
  const auto one = group(0, 2);
  std::vector<at::Tensor> tensors = {at::ones({5})};
  const auto work = one->allreduce(tensors);
  const auto before = first_started_here();
  std::vector<at::Tensor> sent = {at::ones({5})};
  const auto send = one->send(sent, 1, /*tag=*/1);
  looked.set_value();
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->ended, std::nullopt);
  send->wait();
  work->wait();
  peer.wait();
  std::vector<std::string> names;
  for (const TimedOperation& operation : started_here()) {
    EXPECT_TRUE(operation.ended.has_value()) << operation.op;
    names.push_back(operation.op);
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("allreduce", "send", "recv", "allreduce"));
}

TEST_F(OperationTimesTest, KeepsTheLastAndCountsTheOthers) {
  const auto one = group(0, 1);
  const int left_out = operation_times().left_out;
  for (std::size_t i = 0; i < kOperationsKept; ++i) all_reduce(*one, {1});
  const int then = operation_times().left_out;
  EXPECT_GE(then, left_out);
  all_reduce(*one, {7});
  const OperationTimes times = operation_times();
  EXPECT_EQ(times.left_out, then + 1);
  ASSERT_EQ(times.operations.size(), kOperationsKept);
  EXPECT_EQ(times.operations.back().tensors, "Float [7]");
  EXPECT_TRUE(times.operations.back().ended.has_value());
}

TEST_F(OperationTimesTest, UserRangesAreNotOperations) {
  for (const char* name :
       {"my step", "epoch: 3", "c10d::allreduce_", ":", "a:b:c", "train:forward", "epoch:3"}) {
    RECORD_USER_SCOPE(name);
  }
  EXPECT_THAT(started_here(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace distrun
