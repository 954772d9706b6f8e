// DISTRUN_SPAWNS is the number of spawns, 6 by default.
#include <cstdlib>
#include <random>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <signal.h>

#include "distrun/spawn.h"
#include "sharing/spawn/test/spawn_fixture.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using testing::HeldResources;
using testing::kLong;

int number_of_spawns() {
  const char* const number = std::getenv("DISTRUN_SPAWNS");
  return number == nullptr ? 6 : std::stoi(number);
}

// Exchanges shared tensors with the other process.
void exchange(int index, SpawnArguments& arguments) {
  const TensorQueue& from = arguments.queues.at(static_cast<std::size_t>(index));
  const TensorQueue& to = arguments.queues.at(static_cast<std::size_t>(1 - index));
  for (int i = 0; i < 200; ++i) {
    to.put({at::full({1000}, i), arguments.tensors.at(0)}, kLong);
    arguments.tensors.at(0).add_(from.get(kLong).tensors.at(0).sum());
  }
}
const SpawnFunction kExchange("exchange", exchange);

TEST(SpawnLeaksTest, ProcessesThatSucceedLeaveNothing) {
  const HeldResources before = HeldResources::now();
  for (int i = 0; i < 50; ++i) {
    const at::Tensor tensor = at::zeros({100});
    const TensorQueue queues[] = {TensorQueue(2), TensorQueue(2)};
    spawn(kExchange, 2,
          {.arguments = {.tensors = {tensor}, .queues = {queues[0], queues[1]}},
           .start_method = i < 47 ? StartMethod::kFork : StartMethod::kSpawn,
           .timeout = kLong});
  }
  EXPECT_EQ(HeldResources::now(), before);
}

TEST(SpawnLeaksTest, ProcessesKilledAtAnyTimeLeaveNothing) {
  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  const HeldResources before = HeldResources::now();
  for (int i = 0; i < number_of_spawns(); ++i) {
    const at::Tensor tensor = at::zeros({10'000});
    const TensorQueue queues[] = {TensorQueue(2), TensorQueue(2)};
    ProcessContext context = start_processes(
        kExchange, 2,
        {.arguments = {.tensors = {tensor, at::zeros({10})}, .queues = {queues[0], queues[1]}},
         .grace_period = milliseconds(random() % 2 * 10)});
    const testing::Watch victim(context.pids().at(random() % 2));
    try {
      if (context.join(milliseconds(random() % 1000))) continue;
      victim.send(random() % 2 == 0 ? SIGKILL : SIGTERM);
      context.finish(kLong);
    } catch (const ProcessException&) {  // It was killed, or its peer was.
    }
  }
  EXPECT_EQ(HeldResources::now(), before) << "seed " << seed;
}

}  // namespace
}  // namespace distrun
