// When parameters are whole and when they are shards, also after errors.
#include <memory>
#include <stdexcept>
#include <vector>

#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <torch/optim/sgd.h>

#include "distrun/collectives.h"
#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;

class FsdpMemoryMultirankTest : public FsdpMultirankTest {};

TEST_F(FsdpMemoryMultirankTest, ParametersAreShardsOutsideOfForwardAndBackward) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto expect_shards = [&] {
    for (const at::Tensor& one : fsdp.parameters()) EXPECT_EQ(one.dim(), 1);
  };
  expect_shards();
  const at::Tensor output = fsdp(input());
  expect_shards();
  loss(output).backward();
  expect_shards();
  for (const at::Tensor& one : fsdp.parameters()) EXPECT_EQ(one.grad().sizes(), one.sizes());
  {
    const at::NoGradGuard no_grad;
    fsdp(input());
  }
  expect_shards();

  // Together, the ranks have each element once, and little more.
  at::Tensor elements = at::zeros({1});
  for (const FsdpShard& shard : fsdp.shards()) elements += shard.values.numel();
  all_reduce(elements);
  std::int64_t whole = 0;
  for (const auto& one : fsdp.full_state_dict()) whole += one.value().numel();
  EXPECT_EQ(elements.item<std::int64_t>(), whole - 2);  // "seen" is a buffer.
}

// Which blocks have memory for their whole parameters: before each block of a forward, after the
// forward, in backward after the last block, and after the backward.
std::vector<std::vector<bool>> blocks_with_memory(const std::shared_ptr<ShardedNet>& net,
                                                  const at::Tensor& input) {
  FullyShardedDataParallel fsdp(net);
  std::vector<c10::Storage> whole;
  for (const auto& one : net->blocks) {
    one->unshard();
    whole.push_back(one->module()->wide->weight.storage());
    one->reshard();
  }
  std::vector<std::vector<bool>> found;
  const auto look = [&](int) {
    found.emplace_back();
    for (const c10::Storage& one : whole) found.back().push_back(one.nbytes() > 0);
  };
  net->before_block = look;
  net->first->weight.register_hook([&](const at::Tensor& /*gradient*/) { look(3); });
  const at::Tensor output = fsdp(input);
  look(3);
  output.sum().backward();
  look(3);
  return found;
}

TEST_F(FsdpMemoryMultirankTest, FreesTheParametersOfUnitsThatDoNotCompute) {
  EXPECT_THAT(blocks_with_memory(sharded_net({.prefetch = false}), input()),
              ElementsAre(ElementsAre(false, false, false), ElementsAre(false, false, false),
                          ElementsAre(false, false, false), ElementsAre(false, false, false),
                          ElementsAre(false, false, false), ElementsAre(false, false, false)));
}

TEST_F(FsdpMemoryMultirankTest, KeepsParametersUntilBackwardOnRequest) {
  EXPECT_THAT(
      blocks_with_memory(sharded_net({.reshard_after_forward = false, .prefetch = false}), input()),
      ElementsAre(ElementsAre(false, false, false), ElementsAre(true, false, false),
                  ElementsAre(true, true, false), ElementsAre(true, true, true),
                  ElementsAre(false, false, false), ElementsAre(false, false, false)));
}

TEST_F(FsdpMemoryMultirankTest, SavedTensorsDoNotKeepTheMemory) {
  const at::Tensor x = at::randn({2, kWidth}, at::kFloat).requires_grad_();
  Unit unit{Block()};
  const at::Tensor output = unit(x);
  unit.unshard();
  const c10::Storage storage = unit.module()->wide->weight.storage();
  EXPECT_GT(storage.nbytes(), 0);
  unit.reshard();
  EXPECT_EQ(storage.nbytes(), 0);
  output.sum().backward();
  EXPECT_EQ(storage.nbytes(), 0);
  EXPECT_TRUE(x.grad().defined());
}

// The backward of block 1 prefetches block 0, which then has no backward.
TEST_F(FsdpMemoryMultirankTest, NothingStaysGatheredIfAUnitHasNoBackward) {
  const auto net = sharded_net();
  net->is_cut = true;
  FullyShardedDataParallel fsdp(net);
  const auto plain = plain_copy(fsdp);
  plain->is_cut = true;
  for (int step = 0; step < 2; ++step) {
    loss(fsdp(input(step))).backward();
    loss(plain->forward(all_inputs(step))).backward();
    for (const at::Tensor& one : fsdp.parameters()) EXPECT_EQ(one.dim(), 1);
  }
  {
    // The next forward must use the new values.
    const at::NoGradGuard no_grad;
    for (at::Tensor one : fsdp.parameters()) one.mul_(2);
    for (at::Tensor one : plain->parameters()) one.mul_(2);
  }
  EXPECT_TRUE(fsdp(input()).allclose(plain->forward(input()), 1e-4, 1e-5));
  expect_gradients(fsdp, *plain, "block1");
  EXPECT_FALSE(net->blocks[0]->module()->wide->weight.grad().defined());
}

// The last forward is not followed by a backward.
TEST_F(FsdpMemoryMultirankTest, AForwardBeforeTheStepDoesNotChangeTheStep) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  torch::optim::SGD optimizer(fsdp.parameters(), 0.1), plain_optimizer(plain->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss(fsdp(input(step))).backward();
    const at::Tensor metric = fsdp(input(step));
    optimizer.step();
    plain_optimizer.zero_grad();
    loss(plain->forward(all_inputs(step))).backward();
    const at::Tensor expected = plain->forward(input(step));
    plain_optimizer.step();
    EXPECT_TRUE(metric.allclose(expected, 1e-4, 1e-5));
  }
  expect_values(fsdp.full_state_dict(), *plain);
}

TEST_F(FsdpMemoryMultirankTest, AForwardThatThrowsLeavesNothingGathered) {
  const auto net = sharded_net();
  FullyShardedDataParallel fsdp(net);
  const auto plain = plain_copy(fsdp);
  fsdp(input());  // Records the order, so that the next forward prefetches.
  net->before_block = [](int i) {
    if (i == 1) throw std::runtime_error("no block 1");
  };
  EXPECT_THROW(fsdp(input()), std::runtime_error);
  for (const at::Tensor& one : fsdp.parameters()) EXPECT_EQ(one.dim(), 1);
  net->before_block = [](int) {};
  expect_same_training(fsdp, *plain, 3);
}

TEST_F(FsdpMemoryMultirankTest, ABackwardThatThrowsCanBeFollowedByAStep) {
  const auto net = sharded_net();
  FullyShardedDataParallel fsdp(net);
  const auto plain = plain_copy(fsdp);
  const at::Tensor x = input().requires_grad_();
  const at::Tensor output = fsdp(x);
  x.register_hook([](const at::Tensor&) { throw std::runtime_error("no gradient"); });
  EXPECT_THROW(loss(output).backward(), std::runtime_error);
  fsdp.zero_grad();
  expect_same_training(fsdp, *plain, 3);
}

}  // namespace
}  // namespace distrun
