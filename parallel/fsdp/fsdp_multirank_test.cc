// FullyShardedDataParallel on every rank of a run, compared with one process that has all data.
//
//     distrun launch --nproc-per-node 2 build/tests/parallel_multirank_test
//         --gtest_filter='Fsdp*MultirankTest.*'
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include "backends/test/multirank_test.h"
#include "distrun/collectives.h"
#include "distrun/fully_sharded_data_parallel.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

  // The mean gradients of all ranks, whole, by name.
  static void expect_gradients(FsdpModule& fsdp, const torch::nn::Module& plain) {
    expect_gradients_of(fsdp, plain, "");
  }
  // Only those of parameters whose names begin with `part`.
  static void expect_gradients_of(FsdpModule& fsdp, const torch::nn::Module& plain,
                                  const std::string& part) {
    const auto parameters = fsdp.named_parameters(), whole = plain.named_parameters();
    for (const FsdpShard& shard : fsdp.shards()) {
      if (!shard.name.starts_with(part)) continue;
      const at::Tensor gradient = parameters[wrapped(shard.name)].grad();
      ASSERT_TRUE(gradient.defined()) << shard.name;
      const at::Tensor expected =
          whole[shard.name].grad().flatten().narrow(0, shard.offset, shard.values.numel());
      EXPECT_TRUE(gradient.allclose(expected, 1e-5, 1e-6)) << shard.name;
    }
  }
  // "block0.wide.weight" in a net of units within a unit: "module.block0.module.wide.weight".
  static std::string wrapped(const std::string& name) {
    if (!name.starts_with("block")) return "module." + name;
    const std::size_t dot = name.find('.');
    return "module." + name.substr(0, dot) + ".module" + name.substr(dot);
  }
};

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

TEST_F(FsdpMultirankTest, ParametersAreShardsOutsideOfForwardAndBackward) {
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

TEST_F(FsdpMultirankTest, FreesTheParametersOfUnitsThatDoNotCompute) {
  const auto net = sharded_net({.prefetch = false});
  FullyShardedDataParallel fsdp(net);
  std::vector<std::vector<bool>> gathered;
  net->before_block = [&](int) {
    gathered.emplace_back();
    for (const auto& one : net->blocks) {
      gathered.back().push_back(one->module()->wide->weight.dim() == 2);
    }
  };
  fsdp(input());
  EXPECT_THAT(gathered,
              ElementsAre(ElementsAre(false, false, false), ElementsAre(false, false, false),
                          ElementsAre(false, false, false)));
  // What autograd has saved does not keep the memory either.
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
TEST_F(FsdpMultirankTest, NothingStaysGatheredIfAUnitHasNoBackward) {
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
  expect_gradients_of(fsdp, *plain, "block1");
  EXPECT_FALSE(net->blocks[0]->module()->wide->weight.grad().defined());
}

TEST_F(FsdpMultirankTest, BackwardTwiceAccumulates) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  for (int step = 0; step < 2; ++step) {
    loss(fsdp(input(step))).backward();
    loss(plain->forward(all_inputs(step))).backward();
  }
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpMultirankTest, OneBackwardOfTwoForwards) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  (loss(fsdp(input(0))) + loss(fsdp(input(1)))).backward();
  (loss(plain->forward(all_inputs(0))) + loss(plain->forward(all_inputs(1)))).backward();
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpMultirankTest, AGraphCanBeUsedTwice) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  const at::Tensor ours = loss(fsdp(input())), theirs = loss(plain->forward(all_inputs()));
  for (int i = 0; i < 2; ++i) {
    ours.backward({}, /*retain_graph=*/true);
    theirs.backward({}, /*retain_graph=*/true);
  }
  expect_gradients(fsdp, *plain);
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
  expect_gradients_of(fsdp, *plain, "block0");
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
  const at::Tensor own = fsdp.module()->block->module()->own->weight;
  const at::Tensor expected = plain.block->own->weight.grad().flatten();
  for (const FsdpShard& shard : fsdp.shards()) {
    if (shard.name != "block.own.weight") continue;
    EXPECT_TRUE(
        own.grad().allclose(expected.narrow(0, shard.offset, shard.values.numel()), 1e-4, 1e-6));
  }
}

TEST_F(FsdpMultirankTest, NoSyncAccumulatesUntilTheNextReduction) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  for (int step = 0; step < 2; ++step) {
    const auto alone = fsdp.no_sync();
    loss(fsdp(input(step))).backward();
  }
  for (const at::Tensor& one : fsdp.parameters()) EXPECT_FALSE(one.grad().defined());
  loss(fsdp(input(2))).backward();
  for (int step = 0; step < 3; ++step) loss(plain->forward(all_inputs(step))).backward();
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpMultirankTest, ClipsTheNormOfAllGradients) {
  for (const double type : {2.0, 1.0, std::numeric_limits<double>::infinity()}) {
    SCOPED_TRACE(type);
    FullyShardedDataParallel fsdp(sharded_net());
    const auto plain = plain_copy(fsdp);
    loss(fsdp(input())).backward();
    loss(plain->forward(all_inputs())).backward();
    const double norm = fsdp.clip_grad_norm_(0.05, type).item<double>();
    EXPECT_NEAR(torch::nn::utils::clip_grad_norm_(plain->parameters(), 0.05, type), norm,
                1e-5 * norm);
    expect_gradients(fsdp, *plain);
    EXPECT_NEAR(fsdp.clip_grad_norm_(0.06, type).item<double>(), 0.05, 1e-4);  // Unchanged.
    EXPECT_NEAR(fsdp.clip_grad_norm_(0.06, type).item<double>(), 0.05, 1e-4);
  }
  FullyShardedDataParallel fsdp(sharded_net());
  EXPECT_EQ(fsdp.clip_grad_norm_(1).item<double>(), 0);  // Without gradients.
  EXPECT_THAT(error_of([&] { fsdp.clip_grad_norm_(0); }),
              HasSubstr("clip_grad_norm_: max_norm is 0 and norm_type 2; expected more than 0"));
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
    if (shard.name != "tied") continue;
    EXPECT_TRUE(fsdp.module()->tied.grad().allclose(
        plain->tied.grad().flatten().narrow(0, shard.offset, shard.values.numel())));
  }
}

TEST_F(FsdpMultirankTest, ComputesInAnotherDtype) {
  MixedPrecisionPolicy policy{.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
  const auto net = sharded_net({.mp_policy = policy});
  policy.output_dtype = at::kFloat;
  FullyShardedDataParallel fsdp(net, {.mp_policy = policy});
  const auto plain = plain_copy(fsdp);
  at::ScalarType within = at::kFloat;
  net->before_block = [&](int) { within = net->first->weight.scalar_type(); };
  for (int step = 0; step < 2; ++step) {
    const at::Tensor output = fsdp(input(step));
    EXPECT_EQ(within, at::kBFloat16);
    EXPECT_EQ(output.scalar_type(), at::kFloat);
    loss(output).backward();
    loss(plain->forward(all_inputs(step))).backward();
  }
  for (const FsdpShard& shard : fsdp.shards()) {
    const at::Tensor own = fsdp.named_parameters()[wrapped(shard.name)];
    EXPECT_EQ(own.scalar_type(), at::kFloat);
    EXPECT_EQ(own.grad().scalar_type(), at::kFloat);
    const at::Tensor expected = plain->named_parameters()[shard.name].grad().flatten().narrow(
        0, shard.offset, shard.values.numel());
    EXPECT_TRUE(own.grad().allclose(expected, 0.1, 0.02)) << shard.name;
  }
}

// 256 + 1 is 257, which bfloat16 rounds to 256.
TEST_F(FsdpMultirankTest, ReducesInItsOwnDtype) {
  const auto gradient = [](const MixedPrecisionPolicy& policy) {
    FullyShardedDataParallel fsdp(std::make_shared<TwoWaysImpl>(), {.mp_policy = policy});
    const double y = get_rank() == 0 ? 256 : 1;
    fsdp(at::full({3}, 1.0), at::full({3}, y)).first.sum().backward();
    const at::Tensor its = fsdp.module()->b.grad();
    return its * get_world_size();
  };
  const at::Tensor exact = gradient({.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat});
  EXPECT_TRUE(exact.allclose(at::full(exact.sizes(), 255.0 + get_world_size())));
  const at::Tensor rounded = gradient({.param_dtype = at::kBFloat16});
  if (get_world_size() == 2) {
    EXPECT_TRUE(rounded.equal(at::full(rounded.sizes(), 256.0)));
  }
}

TEST_F(FsdpMultirankTest, HalfIsDividedInTwoSteps) {
  FullyShardedDataParallel fsdp(std::make_shared<TwoWaysImpl>(),
                                {.mp_policy = {.reduce_dtype = at::kHalf}});
  const auto [first, second] = fsdp(at::full({3}, 1.0), at::full({3}, 12000.0));
  first.sum().backward();  // The sum of two ranks' gradients is more than 65,504 / 3.
  const at::Tensor& b = fsdp.module()->b;
  EXPECT_TRUE(b.grad().allclose(at::full(b.sizes(), 12000.0), 1e-3));
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

TEST_F(FsdpMultirankTest, AForwardThatThrowsLeavesNothingGathered) {
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

TEST_F(FsdpMultirankTest, ABackwardThatThrowsCanBeFollowedByAStep) {
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

TEST_F(FsdpMultirankTest, RejectsModulesThatItCannotShard) {
  using Fsdp = FullyShardedDataParallel<BlockImpl>;
  EXPECT_EQ(error_of([] { Fsdp(std::shared_ptr<BlockImpl>()); }),
            "FullyShardedDataParallel: module is null; expected a torch::nn::Module");
  EXPECT_EQ(error_of([] { FullyShardedDataParallel<Block>(Block(nullptr)); }),
            "FullyShardedDataParallel: module is null; expected a torch::nn::Module");
  const auto twice = std::make_shared<BlockImpl>();
  const Fsdp fsdp(twice);
  EXPECT_EQ(error_of([&] { Fsdp{twice}; }),
            "FullyShardedDataParallel: parameter 'norm.weight' belongs to another unit; make one "
            "unit of the smallest module that has all uses of the parameter (on rank 0)");
  const auto mixed = std::make_shared<BlockImpl>();
  mixed->narrow->to(at::kDouble);
  EXPECT_EQ(error_of([&] { Fsdp{mixed}; }),
            "FullyShardedDataParallel: parameter 'narrow.weight' has dtype Double and "
            "'norm.weight' Float; expected one dtype: convert them, or make units of their "
            "modules (on rank 0)");
  struct Scattered : torch::nn::Module {
    at::Tensor a = register_parameter("a", at::ones({2})),
               b = register_parameter("b", at::empty({2}, at::kMeta));
    at::Tensor forward(const at::Tensor& x) { return x + a + b; }
  };
  EXPECT_EQ(error_of([&] { FullyShardedDataParallel{std::make_shared<Scattered>()}; }),
            "FullyShardedDataParallel: parameter 'b' is on meta and 'a' on cpu; expected one "
            "device (on rank 0)");
}

TEST_F(FsdpMultirankTest, NoRankWaitsForOneThatCannotShard) {
  const int last = get_world_size() - 1;
  const auto module = std::make_shared<BlockImpl>();
  if (get_rank() == last) module->narrow->to(at::kDouble);
  EXPECT_THAT(error_of([&] { FullyShardedDataParallel<BlockImpl>{module}; }),
              AllOf(HasSubstr("'narrow.weight' has dtype Double"),
                    HasSubstr("(on rank " + std::to_string(last) + ")")));
}

TEST_F(FsdpMultirankTest, RejectsDifferentModulesOnEachRank) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank differs from no other";
  const int inputs = get_rank() == 1 ? 5 : 3;
  EXPECT_EQ(
      error_of([&] { FullyShardedDataParallel<torch::nn::Linear>(torch::nn::Linear(inputs, 2)); }),
      "FullyShardedDataParallel: rank 1 has parameter 'weight', Float [2, 5], and rank 0 has "
      "parameter 'weight', Float [2, 3]; all ranks must construct the same module with the "
      "same options");
  EXPECT_THAT(error_of([&] { Unit(Block(), {.sync_module_states = get_rank() == 0}); }),
              HasSubstr("rank 1 has the options param_dtype own, reduce_dtype own, "
                        "sync_module_states 0, and rank 0"));
  const auto counter = std::make_shared<BlockImpl>();
  counter->register_buffer("count", at::zeros({get_rank() == 1 ? 2 : 1}));
  EXPECT_THAT(error_of([&] { FullyShardedDataParallel<BlockImpl>{counter}; }),
              HasSubstr("rank 1 has buffer 'count', Float [2], and rank 0 has buffer 'count', "
                        "Float [1]"));
}

TEST_F(FsdpMultirankTest, RejectsWhatWouldReplaceShards) {
  Unit unit{Block()};
  std::stringstream file;
  EXPECT_EQ(
      error_of([&] { torch::save(std::shared_ptr<torch::nn::Module>(&unit, [](auto*) {}), file); }),
      "FullyShardedDataParallel: torch::save() would save shards; save full_state_dict()");
  torch::serialize::InputArchive archive;
  EXPECT_EQ(error_of([&] { unit.load(archive); }),
            "FullyShardedDataParallel: torch::load() would replace shards; use "
            "load_full_state_dict()");
  EXPECT_EQ(error_of([&] { unit.to(at::kDouble); }),
            "FullyShardedDataParallel: a sharded module cannot be moved or converted; move it "
            "before it is sharded");
  EXPECT_EQ(error_of([&] { torch::nn::Sequential(std::make_shared<Unit>(Block()))->to(at::kCPU); }),
            error_of([&] { unit.to(at::kDouble); }));
  unit.module()->wide->to(at::kDouble);
  const std::string replaced =
      "FullyShardedDataParallel: the data of parameter 'wide.weight' were replaced, for example by "
      "torch::load() or to(); use load_full_state_dict(), and convert modules before they are "
      "sharded";
  EXPECT_EQ(error_of([&] { unit(at::ones({1, kWidth})); }), replaced);
  EXPECT_EQ(error_of([&] { unit.full_state_dict(); }), replaced);
}

TEST_F(FsdpMultirankTest, RejectsParametersThatAreRegisteredLater) {
  Unit unit{Block()};
  unit.module()->register_parameter("late", at::ones({2}));
  EXPECT_EQ(error_of([&] { unit.full_state_dict(); }),
            "FullyShardedDataParallel: parameter 'late' was registered after its unit was "
            "constructed; register it before");
}

struct ScaleImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", at::full({40}, 2.0)), aux;
  at::Tensor forward(const at::Tensor& x) {
    aux = (x * weight).sum();
    return x * weight;
  }
};
TORCH_MODULE(Scale);

TEST_F(FsdpMultirankTest, AGradientThatReachesAParameterOtherwiseIsAnError) {
  FullyShardedDataParallel<Scale> fsdp{Scale()};
  fsdp(at::ones({40}));
  EXPECT_EQ(error_of([&] { fsdp.module()->aux.backward(); }),
            "FullyShardedDataParallel: a gradient has reached parameter 'weight', but no result of "
            "the forward() of its unit; call backward() only on tensors that are computed from "
            "results of forward()");
  struct Reveals : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", at::ones({4}));
    at::Tensor forward() { return weight.view({2, 2}); }
  };
  FullyShardedDataParallel reveals(std::make_shared<Reveals>());
  EXPECT_EQ(error_of([&] { reveals(); }),
            "FullyShardedDataParallel: forward() returns a parameter or a view of one, whose "
            "memory is freed; return a clone()");
}

// The last forward is not followed by a backward.
TEST_F(FsdpMultirankTest, AForwardBeforeTheStepDoesNotChangeTheStep) {
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

// Two units, of which a forward uses the chosen ones.
struct BranchesImpl : torch::nn::Module {
  std::shared_ptr<FullyShardedDataParallel<Scale>> a, b;
  BranchesImpl() {
    a = register_module("a", std::make_shared<FullyShardedDataParallel<Scale>>(Scale()));
    b = register_module("b", std::make_shared<FullyShardedDataParallel<Scale>>(Scale()));
  }
  at::Tensor forward(bool uses_a, bool uses_b) {
    at::Tensor x = at::ones({40});
    if (uses_a) x = a->forward(x);
    if (uses_b) x = b->forward(x);
    return x.sum();
  }
  static at::Tensor gradient(const FullyShardedDataParallel<Scale>& unit) {
    return unit.module()->weight.grad();
  }
};

TEST_F(FsdpMultirankTest, TheNextReductionIncludesUnitsThatItsBackwardDoesNotUse) {
  FullyShardedDataParallel fsdp(std::make_shared<BranchesImpl>());
  {
    const auto alone = fsdp.no_sync();
    fsdp(false, true).backward();
  }
  fsdp(true, false).backward();
  const at::Tensor of_a = BranchesImpl::gradient(*fsdp.module()->a),
                   of_b = BranchesImpl::gradient(*fsdp.module()->b);
  EXPECT_TRUE(of_a.equal(at::ones(of_a.sizes())));
  EXPECT_TRUE(of_b.equal(at::ones(of_b.sizes())));
}

TEST_F(FsdpMultirankTest, OneBackwardOfForwardsWithAndWithoutNoSyncReduces) {
  for (const bool is_first_alone : {true, false}) {
    FullyShardedDataParallel fsdp(std::make_shared<BranchesImpl>());
    std::vector<at::Tensor> losses;
    for (const bool is_alone : {is_first_alone, !is_first_alone}) {
      if (is_alone) {
        const auto alone = fsdp.no_sync();
        losses.push_back(fsdp(true, false));
      } else {
        losses.push_back(fsdp(true, false));
      }
    }
    (losses[0] + losses[1]).backward();
    const at::Tensor of_a = BranchesImpl::gradient(*fsdp.module()->a);
    EXPECT_TRUE(of_a.equal(at::full(of_a.sizes(), 2.0)));
  }
}

TEST_F(FsdpMultirankTest, ZeroGradForgetsWhatNoSyncHasKeptAndAFailedForwardDoesNot) {
  const auto net = sharded_net();
  FullyShardedDataParallel fsdp(net);
  const auto plain = plain_copy(fsdp);
  const auto keep = [&](int step) {
    const auto alone = fsdp.no_sync();
    loss(fsdp(input(step))).backward();
  };
  keep(5);
  fsdp.zero_grad();
  keep(0);
  net->before_block = [](int) { throw std::runtime_error("no block"); };
  EXPECT_THROW(fsdp(input()), std::runtime_error);
  net->before_block = [](int) {};
  loss(fsdp(input(1))).backward();
  for (int step = 0; step < 2; ++step) loss(plain->forward(all_inputs(step))).backward();
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpMultirankTest, ClipsAUnitWithTwoNamesOnceAndDoubles) {
  struct TwoNames : torch::nn::Module {
    std::shared_ptr<FullyShardedDataParallel<Scale>> first, second;
    TwoNames() {
      Scale scale;
      scale->to(at::kDouble);
      first =
          register_module("first", std::make_shared<FullyShardedDataParallel<Scale>>(scale.ptr()));
      second = register_module("second", first);
    }
    at::Tensor forward(const at::Tensor& x) { return first->forward(x).sum(); }
  };
  FullyShardedDataParallel fsdp(std::make_shared<TwoNames>());
  fsdp(at::full({40}, 3.0, at::kDouble)).backward();
  const at::Tensor norm = fsdp.clip_grad_norm_(1);
  EXPECT_EQ(norm.scalar_type(), at::kDouble);
  EXPECT_NEAR(norm.item<double>(), 3 * std::sqrt(40.0), 1e-6);
  EXPECT_NEAR(fsdp.clip_grad_norm_(1).item<double>(), 1, 1e-4);
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

}  // namespace
}  // namespace distrun
