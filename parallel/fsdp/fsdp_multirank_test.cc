// FullyShardedDataParallel on every rank of a run trains as one process that has all data.
//
//     distrun launch --nproc-per-node 2 build/tests/parallel_multirank_test
//         --gtest_filter='Fsdp*MultirankTest.*'
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {
namespace {

TEST_F(FsdpMultirankTest, TrainsAsOneProcess) { expect_same_training({}, {}); }
TEST_F(FsdpMultirankTest, TrainsWithoutPrefetch) {
  expect_same_training({.prefetch = false}, {.prefetch = false});
}
TEST_F(FsdpMultirankTest, TrainsWithParametersThatStayGathered) {
  expect_same_training({.reshard_after_forward = false}, {.reshard_after_forward = true});
}

TEST_F(FsdpMultirankTest, TrainsAsASingleUnit) {
  const auto net = std::make_shared<PlainNet>([] { return std::make_shared<BlockImpl>(); });
  FullyShardedDataParallel fsdp(net);
  expect_same_training(fsdp, *plain_copy(fsdp));
}

TEST_F(FsdpMultirankTest, UnitsNeedNoUnitAroundThem) {
  const auto net = sharded_net();
  torch::optim::SGD optimizer(net->blocks[1]->parameters(), 0.1);
  Block plain;
  copy_values(net->blocks[1]->full_state_dict(), *plain);
  torch::optim::SGD plain_optimizer(plain->parameters(), 0.1);
  const auto run = [&](auto& block, const at::Tensor& x, auto& its_optimizer) {
    its_optimizer.zero_grad();
    loss(block->forward(at::cat({x, x.cos()}, 1)).sum(1)).backward();
    its_optimizer.step();
  };
  for (int step = 0; step < 3; ++step) {
    run(net->blocks[1], input(step), optimizer);
    run(plain, all_inputs(step), plain_optimizer);
  }
  expect_values(net->blocks[1]->full_state_dict(), *plain);
}

TEST_F(FsdpMultirankTest, AnElementOfSequential) {
  const torch::nn::Sequential net(torch::nn::Linear(3, kWidth), std::make_shared<Unit>(Block()),
                                  std::make_shared<Unit>(Block()), torch::nn::ReLU());
  FullyShardedDataParallel fsdp(net);
  torch::nn::Sequential plain(torch::nn::Linear(3, kWidth), Block(), Block(), torch::nn::ReLU());
  copy_values(fsdp.full_state_dict(), *plain);
  torch::optim::SGD optimizer(fsdp.parameters(), 0.1), plain_optimizer(plain->parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    loss(fsdp(input(step))).backward();
    optimizer.step();
    plain_optimizer.zero_grad();
    loss(plain->forward(all_inputs(step))).backward();
    plain_optimizer.step();
  }
  expect_values(fsdp.full_state_dict(), *plain);
}

TEST_F(FsdpMultirankTest, AUnitCanBeUsedTwiceInAForward) {
  const auto net = sharded_net();
  net->blocks[1] = net->blocks[0];
  FullyShardedDataParallel fsdp(net);
  const auto plain = plain_copy(fsdp);
  plain->blocks[1] = plain->blocks[0];
  // Block 1 is still registered, but unused.
  loss(fsdp(input())).backward();
  loss(plain->forward(all_inputs())).backward();
  expect_gradients(fsdp, *plain, "block0");
}

// A unit within a unit, both with parameters of their own.
template <class B>
struct TwoLevels : torch::nn::Module {
  torch::nn::Linear own = register_module("own", torch::nn::Linear(kWidth, kWidth));
  std::shared_ptr<B> inner;
  explicit TwoLevels(std::shared_ptr<B> its) : inner(register_module("inner", std::move(its))) {}
  at::Tensor forward(const at::Tensor& x) { return inner->forward(at::relu(own(x))); }
};
template <class B>
struct Twice : torch::nn::Module {
  std::shared_ptr<B> block;
  explicit Twice(std::shared_ptr<B> its) : block(register_module("block", std::move(its))) {}
  at::Tensor forward(const at::Tensor& x) { return block->forward(block->forward(x)); }
};

TEST_F(FsdpMultirankTest, AUnitWithAUnitWithinCanBeUsedTwice) {
  using Inner = TwoLevels<Unit>;
  FullyShardedDataParallel fsdp(std::make_shared<Twice<FullyShardedDataParallel<Inner>>>(
      std::make_shared<FullyShardedDataParallel<Inner>>(
          std::make_shared<Inner>(std::make_shared<Unit>(Block())))));
  Twice<TwoLevels<BlockImpl>> plain(
      std::make_shared<TwoLevels<BlockImpl>>(std::make_shared<BlockImpl>()));
  copy_values(fsdp.full_state_dict(), plain);
  const auto wide = [](const at::Tensor& x) { return at::cat({x, x.cos()}, 1).requires_grad_(); };
  loss(fsdp(wide(input()))).backward();
  loss(plain.forward(wide(all_inputs()))).backward();
  expect_gradient(shard_named("block.own.weight", fsdp),
                  fsdp.module()->block->module()->own->weight, plain.block->own->weight, 1e-4);
}

TEST_F(FsdpMultirankTest, SeveralInputsAndOutputs) {
  FullyShardedDataParallel fsdp(std::make_shared<TwoWaysImpl>());
  const at::Tensor x = at::full({3}, 1.0 + get_rank()).requires_grad_(),
                   y = at::full({3}, 2.0).requires_grad_();
  const auto [first, second] = fsdp(x, y * 1);
  (first.sum() + second.sum()).backward();
  EXPECT_TRUE(x.grad().equal(at::full({3}, 10.0)));
  EXPECT_TRUE(y.grad().equal(at::full({3}, 18.0)));
  fsdp.unshard();
  fsdp.reshard();
  const double mean_x = 1 + (get_world_size() - 1) / 2.0;
  const auto& module = *fsdp.module();
  EXPECT_TRUE(module.a.grad().allclose(at::full(module.a.sizes(), 5 * mean_x)));
  EXPECT_TRUE(module.b.grad().allclose(at::full(module.b.sizes(), 12.0)));
  EXPECT_TRUE(module.unused.grad().equal(at::zeros(module.unused.sizes())));
  EXPECT_FALSE(module.frozen.grad().defined());
}

TEST_F(FsdpMultirankTest, RanksCanUseDifferentParametersOfAUnit) {
  struct Choice : torch::nn::Module {
    std::vector<at::Tensor> parts = {register_parameter("even", at::ones({2})),
                                     register_parameter("odd", at::ones({2}))};
    at::Tensor forward(int which) { return parts[static_cast<std::size_t>(which)].sum(); }
  };
  FullyShardedDataParallel fsdp(std::make_shared<Choice>());
  fsdp(get_rank() == 0 ? 1 : 0).backward();
  const double odd = 1.0 / get_world_size();
  for (int i = 0; i < 2; ++i) {
    const at::Tensor& part = fsdp.module()->parts[static_cast<std::size_t>(i)];
    EXPECT_TRUE(part.grad().allclose(at::full(part.sizes(), i == 1 ? odd : 1 - odd)));
  }
}

TEST_F(FsdpMultirankTest, SharesAWeightWithinAUnit) {
  struct Tied : torch::nn::Module {
    torch::nn::Linear a = register_module("a", torch::nn::Linear(3, 3));
    at::Tensor tied = register_parameter("tied", a->weight);
    at::Tensor forward(const at::Tensor& x) { return at::linear(a(x), tied); }
  };
  const auto plain = std::make_shared<Tied>();
  FullyShardedDataParallel fsdp(std::make_shared<Tied>());
  const FsdpState state = fsdp.full_state_dict();
  EXPECT_TRUE(state["a.weight"].equal(state["tied"]));
  copy_values(state, *plain);
  loss(fsdp(input())).backward();
  loss(plain->forward(all_inputs())).backward();
  for (const FsdpShard& shard : fsdp.shards()) {
    EXPECT_NE(shard.name, "a.weight");  // It has another name already.
  }
  expect_gradient(shard_named("tied", fsdp), fsdp.module()->tied, plain->tied);
}

TEST_F(FsdpMultirankTest, ShardsWithinItsGroupOnly) {
  const Group first = new_group({0});
  if (get_rank() != 0) {
    EXPECT_EQ(error_of([&] { Unit(Block(), {.process_group = first}); }),
              "FullyShardedDataParallel: rank " + std::to_string(get_rank()) +
                  " is not in its process_group");
    return;
  }
  FullyShardedDataParallel fsdp(sharded_net({.process_group = first}), {.process_group = first});
  const auto plain = plain_copy(fsdp);
  loss(fsdp(input())).backward();
  loss(plain->forward(input())).backward();
  expect_gradients(fsdp, *plain);
  EXPECT_EQ(error_of([&] { FullyShardedDataParallel(sharded_net({.process_group = first})); }),
            "FullyShardedDataParallel: a unit within has another process_group; expected the same");
}

TEST_F(FsdpMultirankTest, RanksGetTheValuesOfRankZeroOrKeepTheirs) {
  for (const bool syncs : {true, false}) {
    torch::nn::BatchNorm1d norm(400);
    {
      const at::NoGradGuard no_grad;
      for (const auto& one : norm->parameters()) one.fill_(get_rank() + 5);
      norm->running_mean.fill_(get_rank() + 7);
    }
    FullyShardedDataParallel fsdp(norm, {.sync_module_states = syncs});
    const double own = syncs ? 0 : get_rank();
    for (const FsdpShard& shard : fsdp.shards()) {
      EXPECT_TRUE(shard.values.eq(own + 5).all().item<bool>()) << shard.name;
    }
    EXPECT_TRUE(norm->running_mean.eq(own + 7).all().item<bool>());
  }
}

TEST_F(FsdpMultirankTest, TheFullStateCanBeLoaded) {
  FullyShardedDataParallel fsdp(sharded_net());
  const FsdpState state = fsdp.full_state_dict();
  FsdpState doubled;
  for (const auto& one : state) doubled.insert(one.key(), one.value() * 2);
  doubled["seen"].fill_(7);
  FullyShardedDataParallel other(sharded_net());
  other.load_full_state_dict(doubled);
  for (const auto& one : other.full_state_dict()) {
    EXPECT_TRUE(one.value().equal(doubled[one.key()])) << one.key();
  }
  EXPECT_TRUE(other.module()->named_buffers()["seen"].equal(at::full({2}, 7.0)));
  expect_same_training(other, *plain_copy(other), 3);

  FsdpState wrong;
  EXPECT_EQ(error_of([&] { fsdp.load_full_state_dict(wrong); }),
            "load_full_state_dict: 'seen' is missing in the state");
  for (const auto& one : state) wrong.insert(one.key(), one.value());
  wrong["first.bias"] = at::ones({5});
  EXPECT_EQ(error_of([&] { fsdp.load_full_state_dict(wrong); }),
            "load_full_state_dict: 'first.bias' has sizes [5]; expected [6]");
  wrong["first.bias"] = state["first.bias"];
  wrong.insert("more", at::ones({1}));
  EXPECT_EQ(error_of([&] { fsdp.load_full_state_dict(wrong); }),
            "load_full_state_dict: the module has no 'more'");
}

}  // namespace
}  // namespace distrun
