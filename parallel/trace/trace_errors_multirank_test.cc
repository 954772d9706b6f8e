#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "distrun/point_to_point.h"
#include "parallel/trace/test/trace_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::StartsWith;

TEST_F(TraceMultirankTest, RejectsResultsThatAnotherThreadHasCopied) {
  const auto error = error_of([&] {
    trace(
        [](const Tensors& x) -> Tensors {
          const at::Tensor sum = (x[0] + 1).t();
          const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
          std::thread([&] { work.wait(); }).join();
          return {sum * 2};
        },
        {input()});
  });
  EXPECT_EQ(error,
            "trace: a thread that is not recorded waited for %allreduce_ and copied its results; "
            "wait on the traced thread, or use contiguous tensors");
}

TEST_F(TraceMultirankTest, AppliesTheGroupsTimeoutToMessagesInAReplay) {
  if (size() == 1) return;
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::seconds(20)});
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::Tensor sum = x[0] + 1;
        if (get_rank() == 0) recv(sum, 1, {.group = group});
        if (get_rank() == 1) send(sum, 0, {.group = group});
        return {sum};
      },
      {input()});
  if (get_rank() == 0) {
    set_timeout(std::chrono::milliseconds(200), group);
    const auto start = std::chrono::steady_clock::now();
    const auto error = error_of<c10::DistBackendError>([&] { its.replay({input()}); });
    EXPECT_THAT(error, StartsWith("replay: %recv_: "));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  rendezvous_at("over the message");
  abort_process_group(group);
}

TEST_F(TraceMultirankTest, NamesTheNodeIfABarrierThrowsInAReplay) {
  if (size() == 1) return;
  const Group group = new_group();
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        monitored_barrier({.group = group, .timeout = std::chrono::milliseconds(300)});
        return {x[0] + 1};
      },
      {input()});
  if (get_rank() == 0) {
    const auto error = error_of<c10::DistBackendError>([&] { its.replay({input()}); });
    EXPECT_THAT(error, StartsWith("replay: %monitored_barrier_: "));
  }
  rendezvous_at("over the barrier");
  abort_process_group(group);
}

TEST_F(TraceMultirankTest, KeepsTheGroupUsableIfTheFunctionThrows) {
  EXPECT_THROW(trace(
                   [](const Tensors& x) -> Tensors {
                     const at::Tensor sum = x[0] + 1;
                     const Work work = all_reduce(sum, ReduceOp::SUM, {.async_op = true});
                     throw std::runtime_error("no more");
                   },
                   {input()}),
               std::runtime_error);
  const at::Tensor ones = at::ones({2});
  all_reduce(ones);
  EXPECT_TRUE(ones.equal(at::full({2}, size())));
}

// The trace adds this wait, so no public function adds context to the error.
TEST_F(TraceMultirankTest, NamesTheNodeIfAWaitOfTheTraceThrows) {
  if (size() == 1) return;
  const Group group = new_group();
  if (get_rank() == 0) {
    set_timeout(std::chrono::milliseconds(200), group);
    const auto error = error_of<c10::DistBackendError>([&] {
      trace(
          [&](const Tensors& x) -> Tensors {
            const at::Tensor sum = x[0] + 1;
            const Work work = all_reduce(sum, ReduceOp::SUM, {.group = group, .async_op = true});
            return {sum * 2};
          },
          {input()});
    });
    EXPECT_THAT(error, StartsWith("trace: %allreduce_: "));
  }
  rendezvous_at("over");
  abort_process_group(group);
}

TEST_F(TraceMultirankTest, NamesTheNodeIfABackendThrowsInAReplay) {
  if (size() == 1) return;
  const Group group = new_group();
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::Tensor sum = x[0] + 1;
        all_reduce(sum, ReduceOp::SUM, {.group = group});
        return {sum};
      },
      {input()});
  if (get_rank() == 0) {
    set_timeout(std::chrono::milliseconds(200), group);
    const auto error = error_of<c10::DistBackendError>([&] { its.replay({input()}); });
    EXPECT_THAT(error, StartsWith("replay: %allreduce_: "));
  }
  rendezvous_at("over");
  abort_process_group(group);
}

}  // namespace
}  // namespace distrun
