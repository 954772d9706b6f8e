// Helpers of tests of FullyShardedDataParallel on every rank of a run.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include "backends/test/multirank_test.h"
#include "distrun/fully_sharded_data_parallel.h"

namespace distrun {

constexpr int kWidth = 6;

// A residual block, whose input is used twice.
struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear wide{nullptr}, narrow{nullptr};
  BlockImpl() {
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    wide = register_module("wide", torch::nn::Linear(kWidth, 2 * kWidth + 1));
    narrow = register_module("narrow", torch::nn::Linear(2 * kWidth + 1, kWidth));
  }
  at::Tensor forward(const at::Tensor& x) { return x + narrow(at::relu(wide(norm(x)))); }
};
TORCH_MODULE(Block);
using Unit = FullyShardedDataParallel<Block>;

// Blocks that are units, or not, with layers around them that belong to no block.
template <class B>
struct NetOf : torch::nn::Module {
  torch::nn::Linear first{nullptr}, last{nullptr};
  std::vector<std::shared_ptr<B>> blocks;
  std::function<void(int)> before_block = [](int) {};
  bool is_cut = false;  // No gradient reaches block 0.

  explicit NetOf(const std::function<std::shared_ptr<B>()>& make) {
    first = register_module("first", torch::nn::Linear(3, kWidth));
    for (int i = 0; i < 3; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), make()));
    }
    last = register_module("last", torch::nn::Linear(kWidth, 2));
    register_buffer("seen", at::zeros({2}));
  }
  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = first(input);
    for (int i = 0; i < 3; ++i) {
      before_block(i);
      x = blocks[static_cast<std::size_t>(i)]->forward(x);
      if (is_cut && i == 0) x = x.detach();
    }
    return last(x);
  }
};
using PlainNet = NetOf<BlockImpl>;
using ShardedNet = NetOf<Unit>;

class FsdpMultirankTest : public MultirankTest {
 protected:
  // Other weights on each rank, to detect a missing broadcast.
  void SetUp() override {
    MultirankTest::SetUp();
    torch::manual_seed(static_cast<std::uint64_t>(get_rank()) + 1);
  }

  static std::shared_ptr<ShardedNet> sharded_net(const FsdpOptions& options = {}) {
    return std::make_shared<ShardedNet>([&] { return std::make_shared<Unit>(Block(), options); });
  }

  // The plain net with the values of the sharded one.
  static std::shared_ptr<PlainNet> plain_copy(FsdpModule& fsdp) {
    auto plain = std::make_shared<PlainNet>([] { return std::make_shared<BlockImpl>(); });
    copy_values(fsdp.full_state_dict(), *plain);
    return plain;
  }
  static void copy_values(const FsdpState& state, const torch::nn::Module& module) {
    const at::NoGradGuard no_grad;
    for (const auto& one : module.named_parameters()) one.value().copy_(state[one.key()]);
  }
  static void expect_values(const FsdpState& state, const torch::nn::Module& module,
                            double tolerance = 1e-5) {
    for (const auto& one : module.named_parameters()) {
      const at::Tensor* const found = state.find(one.key());
      ASSERT_NE(found, nullptr) << one.key();
      EXPECT_EQ(found->sizes(), one.value().sizes()) << one.key();
      EXPECT_TRUE(found->allclose(one.value().detach(), tolerance, tolerance))
          << one.key() << " differs by " << (*found - one.value()).abs().max().item<double>();
    }
  }

  static at::Tensor input_of(int rank, int step) {
    return at::arange(12, at::kFloat).view({4, 3}).sin() + 0.1 * rank - 0.2 * step;
  }
  static at::Tensor input(int step = 0) { return input_of(get_rank(), step); }
  static at::Tensor all_inputs(int step = 0) {
    return at::cat(of_all_ranks([&](int rank) { return input_of(rank, step); }));
  }
  static at::Tensor loss(const at::Tensor& output) { return (output - 1).pow(2).mean(); }

  // Trains both, and compares the parameters.
  template <class Fsdp>
  static void expect_same_training(Fsdp& fsdp, PlainNet& plain, int steps = 10) {
    torch::optim::Adam optimizer(fsdp.parameters(), torch::optim::AdamOptions(0.01));
    torch::optim::Adam plain_optimizer(plain.parameters(), torch::optim::AdamOptions(0.01));
    for (int step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      loss(fsdp(input(step))).backward();
      optimizer.step();
      plain_optimizer.zero_grad();
      loss(plain.forward(all_inputs(step))).backward();
      plain_optimizer.step();
    }
    expect_values(fsdp.full_state_dict(), plain);
  }
  static void expect_same_training(const FsdpOptions& inner, const FsdpOptions& outer) {
    FullyShardedDataParallel fsdp(sharded_net(inner), outer);
    expect_same_training(fsdp, *plain_copy(fsdp));
  }

  // This rank's part of a parameter's gradient is that part of the whole one.
  static void expect_gradient(const FsdpShard& shard, const at::Tensor& parameter,
                              const at::Tensor& whole, double rtol = 1e-5, double atol = 1e-6) {
    ASSERT_TRUE(parameter.grad().defined()) << shard.name;
    const at::Tensor expected =
        whole.grad().flatten().narrow(0, shard.offset, shard.values.numel());
    EXPECT_TRUE(parameter.grad().allclose(expected, rtol, atol)) << shard.name;
  }
  // The same for all parameters of a net whose names start with `part`.
  static void expect_gradients(FsdpModule& fsdp, const torch::nn::Module& plain,
                               const std::string& part = "", double rtol = 1e-5,
                               double atol = 1e-6) {
    const auto parameters = fsdp.named_parameters(), whole = plain.named_parameters();
    int compared = 0;
    for (const FsdpShard& shard : fsdp.shards()) {
      if (!shard.name.starts_with(part)) continue;
      expect_gradient(shard, parameters[wrapped(shard.name)], whole[shard.name], rtol, atol);
      ++compared;
    }
    EXPECT_GT(compared, 0);
  }
  static FsdpShard shard_named(const std::string& name, FsdpModule& fsdp) {
    for (const FsdpShard& shard : fsdp.shards()) {
      if (shard.name == name) return shard;
    }
    ADD_FAILURE() << "no shard has the name " << name;
    return {};
  }
  // "block0.wide.weight" in a net of units within a unit: "module.block0.module.wide.weight".
  static std::string wrapped(const std::string& name) {
    if (!name.starts_with("block")) return "module." + name;
    const std::size_t dot = name.find('.');
    return "module." + name.substr(0, dot) + ".module" + name.substr(dot);
  }
};

// Two inputs and two outputs; the first output needs only the second input.
struct TwoWaysImpl : torch::nn::Module {
  at::Tensor a = register_parameter("a", at::full({3}, 2.0)),
             b = register_parameter("b", at::full({3}, 3.0)),
             unused = register_parameter("unused", at::ones({20})),
             frozen = register_parameter("frozen", at::full({3}, 5.0), /*requires_grad=*/false);
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& y) {
    return {y * b, (x * a + y * b) * frozen};
  }
};

struct ScaleImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", at::full({40}, 2.0)), aux;
  at::Tensor forward(const at::Tensor& x) {
    aux = (x * weight).sum();
    return x * weight;
  }
};
TORCH_MODULE(Scale);

}  // namespace distrun
