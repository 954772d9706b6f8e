// Each process of a call is a separate holder of its queues.
#include <chrono>
#include <thread>
#include <utility>

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "distrun/shared_tensor.h"
#include "distrun/spawn.h"
#include "sharing/spawn/test/spawn_fixture.h"

namespace distrun {
namespace {

using namespace std::chrono_literals;
using testing::kLong;

// `flag` is an element of a shared tensor.
void wait_for(const at::Tensor& flag) {
  while (flag.item<float>() == 0) std::this_thread::yield();
}

// The parent sets the first flag when it has dropped its copy of the queue.
void exchange_late(int index, SpawnArguments& arguments) {
  const at::Tensor& flags = arguments.tensors.at(0);
  const at::Tensor parent_is_out = flags[0], gets = flags[1], has_got = flags[2];
  const TensorQueue& queue = arguments.queues.at(0);
  wait_for(parent_is_out);
  if (index == 0) {
    wait_for(gets);
    queue.put({{}, "late"}, kLong);
    wait_for(has_got);
    return;
  }
  // Empty, both at once and after blocking, but not ended: the other process holds the queue.
  for (const auto timeout : {0ms, 300ms}) {
    try {
      queue.get(timeout);
      TORCH_CHECK(false, "there is an item that no process has put");
    } catch (const QueueTimeout&) {
      continue;
    }
  }
  gets.fill_(1);
  TORCH_CHECK(queue.get(kLong).text == "late", "it is another item");
  has_got.fill_(1);
}
const SpawnFunction kExchangeLate("exchange late", exchange_late);

TEST(SpawnQueuesTest, QueueDoesNotEndWhileAnotherProcessOfTheCallHoldsIt) {
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    const at::Tensor flags = share_memory_(at::zeros({3}));
    SpawnOptions options{.start_method = method};
    options.arguments.tensors = {flags};
    options.arguments.queues = {TensorQueue(2, "between")};
    ProcessContext context = start_processes(kExchangeLate, 2, std::move(options));
    options.arguments = {};
    flags[0].fill_(1);
    context.finish(kLong);
  }
}

constexpr int kPuts = 5000;

void fill(int, SpawnArguments& arguments) {
  const TensorQueue& queue = arguments.queues.at(0);
  for (int i = 0; i < kPuts; ++i) {
    queue.put({}, kLong);
    TORCH_CHECK(queue.size() <= 1, "there are ", queue.size(), " items");
  }
}
const SpawnFunction kFill("fill", fill);

TEST(SpawnQueuesTest, ProcessesOfOneCallPutOneAtATime) {
  const TensorQueue queue(1, "narrow");
  ProcessContext context = start_processes(kFill, 2, {.arguments = {.queues = {queue.writer()}}});
  int too_many = 0;
  for (int i = 0; i < 2 * kPuts; ++i) {
    if (queue.size() > 1) ++too_many;
    queue.get(kLong);
  }
  EXPECT_EQ(too_many, 0);
  context.finish(kLong);
}

}  // namespace
}  // namespace distrun
