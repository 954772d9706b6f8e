// Gradients: accumulation, no_sync(), clipping, and dtypes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <torch/nn/utils/clip_grad.h>

#include "parallel/fsdp/test/fsdp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class FsdpGradientsMultirankTest : public FsdpMultirankTest {};

TEST_F(FsdpGradientsMultirankTest, BackwardTwiceAccumulates) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  for (int step = 0; step < 2; ++step) {
    loss(fsdp(input(step))).backward();
    loss(plain->forward(all_inputs(step))).backward();
  }
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpGradientsMultirankTest, OneBackwardOfTwoForwards) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  (loss(fsdp(input(0))) + loss(fsdp(input(1)))).backward();
  (loss(plain->forward(all_inputs(0))) + loss(plain->forward(all_inputs(1)))).backward();
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpGradientsMultirankTest, AGraphCanBeUsedTwice) {
  FullyShardedDataParallel fsdp(sharded_net());
  const auto plain = plain_copy(fsdp);
  const at::Tensor ours = loss(fsdp(input())), theirs = loss(plain->forward(all_inputs()));
  for (int i = 0; i < 2; ++i) {
    ours.backward({}, /*retain_graph=*/true);
    theirs.backward({}, /*retain_graph=*/true);
  }
  expect_gradients(fsdp, *plain);
}

TEST_F(FsdpGradientsMultirankTest, NoSyncAccumulatesUntilTheNextReduction) {
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

TEST_F(FsdpGradientsMultirankTest, TheNextReductionIncludesUnitsThatItsBackwardDoesNotUse) {
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

TEST_F(FsdpGradientsMultirankTest, OneBackwardOfForwardsWithAndWithoutNoSyncReduces) {
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

TEST_F(FsdpGradientsMultirankTest, ZeroGradForgetsWhatNoSyncHasKeptAndAFailedForwardDoesNot) {
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

TEST_F(FsdpGradientsMultirankTest, ClipsTheNormOfAllGradients) {
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

TEST_F(FsdpGradientsMultirankTest, ClipsAUnitWithTwoNamesOnceAndDoubles) {
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

TEST_F(FsdpGradientsMultirankTest, ComputesInAnotherDtype) {
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
  }
  expect_gradients(fsdp, *plain, "", 0.1, 0.02);
}

// 256 + 1 is 257, which bfloat16 rounds to 256.
TEST_F(FsdpGradientsMultirankTest, ReducesInItsOwnDtype) {
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

TEST_F(FsdpGradientsMultirankTest, HalfIsDividedInTwoSteps) {
  FullyShardedDataParallel fsdp(std::make_shared<TwoWaysImpl>(),
                                {.mp_policy = {.reduce_dtype = at::kHalf}});
  // The sum over all ranks is 90,000, and the largest half is 65,504.
  const double gradient = 90'000.0 / std::max(2, get_world_size());
  const auto [first, second] = fsdp(at::full({3}, 1.0), at::full({3}, gradient));
  first.sum().backward();
  const at::Tensor& b = fsdp.module()->b;
  EXPECT_TRUE(b.grad().allclose(at::full(b.sizes(), gradient), 1e-3));
}

}  // namespace
}  // namespace distrun
