// SyncBatchNorm on every rank of a run, compared with a BatchNorm that has the batches of all
// ranks.
//
//     distrun launch --nproc-per-node 2 build/tests/parallel_multirank_test
//         --gtest_filter='SyncBatchNorm*MultirankTest.*'
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "parallel/norm/test/sync_batch_norm_fixture.h"

namespace distrun {
namespace {

using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNorm3d;
using torch::nn::BatchNormOptions;

class SyncBatchNormEqualityMultirankTest : public SyncBatchNormMultirankTest {
 protected:
  struct Case {
    BatchNormOptions options = kChannels;
    std::vector<std::int64_t> sizes = {};  // After the channels.
    at::ScalarType dtype = at::kFloat, parameters = at::kFloat;
    double tolerance = 2e-5;
    std::optional<at::MemoryFormat> format = std::nullopt;
    bool input_requires_grad = true;
  };

  // Trains three steps with both layers. Gradients of the parameters are those of this rank's
  // batch, so their sum is compared.
  template <class Plain>
  static void expect_as_plain(const Case& its, const Rows& rows, const Group& group = {},
                              int rank = get_rank()) {
    SCOPED_TRACE(
        c10::str(at::IntArrayRef(rows), " of ", at::IntArrayRef(its.sizes), " ", its.dtype));
    Plain plain(its.options);
    SyncBatchNorm sync(its.options, group);
    if (its.options.affine()) {
      const at::NoGradGuard no_grad;
      plain->weight.copy_(at::randn({kChannels}));
      plain->bias.copy_(at::randn({kChannels}));
      sync->weight.copy_(plain->weight);
      sync->bias.copy_(plain->bias);
    }
    if (its.dtype == at::kDouble) plain->to(at::kDouble);
    sync->to(its.parameters);
    for (int step = 0; step < 3; ++step) {
      SCOPED_TRACE(c10::str("step ", step));
      at::Tensor whole = whole_batch(rows, its.sizes).to(its.dtype);
      if (its.format) whole = whole.contiguous(*its.format);
      const at::Tensor own = part(whole, rows, rank).detach().clone();
      whole.requires_grad_(its.input_requires_grad);
      own.requires_grad_(its.input_requires_grad);
      const at::Tensor factors = at::randn(whole.sizes()).to(its.dtype);
      const at::Tensor expected = plain(whole), actual = sync(own);
      expect_close(actual, part(expected, rows, rank), its.tolerance, "output");
      if (!expected.requires_grad()) continue;
      (expected * factors).sum().backward();
      (actual * part(factors, rows, rank)).sum().backward();
      if (its.input_requires_grad) {
        expect_close(own.grad(), part(whole.grad(), rows, rank), its.tolerance, "input gradient");
      }
    }
    // Sums over a batch, so with larger errors.
    for (const auto& one : sync->named_parameters()) {
      expect_close(summed(one.value().grad(), group).to(its.dtype),
                   plain->named_parameters()[one.key()].grad().to(its.dtype), 20 * its.tolerance,
                   one.key());
    }
    expect_same_buffers(*sync, *plain, its.tolerance);
    plain->eval();
    sync->eval();
    const at::Tensor next = whole_batch(rows, its.sizes).to(its.dtype);
    expect_close(sync(next), plain(next), its.tolerance, "output of eval()");
  }

  static void expect_same_buffers(const torch::nn::Module& sync, const torch::nn::Module& plain,
                                  double tolerance) {
    const auto actual = sync.named_buffers();
    for (const auto& one : plain.named_buffers()) {
      ASSERT_TRUE(actual.contains(one.key()));
      expect_close(actual[one.key()].to(one.value().scalar_type()), one.value(), tolerance,
                   one.key());
    }
  }

  template <class Plain>
  static void expect_as_plain_for_all_rows(const Case& its) {
    for (const Rows& rows : rows_to_try(get_world_size())) expect_as_plain<Plain>(its, rows);
  }
};

TEST_F(SyncBatchNormEqualityMultirankTest, EqualsBatchNormForEveryNumberOfDimensions) {
  expect_as_plain_for_all_rows<BatchNorm1d>({});
  expect_as_plain_for_all_rows<BatchNorm1d>({.sizes = {5}});
  expect_as_plain_for_all_rows<BatchNorm2d>({.sizes = {4, 3}});
  expect_as_plain_for_all_rows<BatchNorm3d>({.sizes = {2, 3, 2}});
}

TEST_F(SyncBatchNormEqualityMultirankTest, EqualsBatchNormWithAllOptions) {
  for (const bool affine : {true, false}) {
    for (const bool track : {true, false}) {
      for (const std::optional<double>& momentum : {std::optional(0.3), std::optional<double>()}) {
        expect_as_plain_for_all_rows<BatchNorm1d>({.options = BatchNormOptions(kChannels)
                                                                  .affine(affine)
                                                                  .track_running_stats(track)
                                                                  .momentum(momentum)
                                                                  .eps(0.1)});
      }
    }
  }
}

TEST_F(SyncBatchNormEqualityMultirankTest, EqualsBatchNormInDouble) {
  expect_as_plain_for_all_rows<BatchNorm2d>(
      {.sizes = {4, 3}, .dtype = at::kDouble, .parameters = at::kDouble, .tolerance = 1e-10});
}

// Statistics are float. With parameters and buffers of the same dtype, the buffers have fewer
// digits.
TEST_F(SyncBatchNormEqualityMultirankTest, EqualsBatchNormInHalfAndBFloat16) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    for (const auto parameters : {at::kFloat, dtype}) {
      expect_as_plain_for_all_rows<BatchNorm2d>(
          {.sizes = {4, 3}, .dtype = dtype, .parameters = parameters, .tolerance = 0.05});
    }
  }
}

TEST_F(SyncBatchNormEqualityMultirankTest, EqualsBatchNormWithChannelsLast) {
  expect_as_plain_for_all_rows<BatchNorm2d>(
      {.sizes = {4, 3}, .format = at::MemoryFormat::ChannelsLast});
  expect_as_plain_for_all_rows<BatchNorm3d>(
      {.sizes = {4, 3, 2}, .format = at::MemoryFormat::ChannelsLast3d});
}

TEST_F(SyncBatchNormEqualityMultirankTest, EqualsBatchNormIfTheInputNeedsNoGradient) {
  expect_as_plain_for_all_rows<BatchNorm1d>({.sizes = {5}, .input_requires_grad = false});
}

TEST_F(SyncBatchNormEqualityMultirankTest, SynchronizesWithinItsGroupOnly) {
  std::vector<int> even, odd;
  for (int rank = 0; rank < get_world_size(); ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  Group group = new_group(even);
  if (!odd.empty()) {
    const Group other = new_group(odd);
    if (get_rank() % 2 == 1) group = other;
  }
  const int ranks = get_world_size(group), rank = get_rank(group);
  for (const Rows& rows : rows_to_try(ranks)) expect_as_plain<BatchNorm1d>({}, rows, group, rank);
}

TEST_F(SyncBatchNormEqualityMultirankTest, AConversionSetsTheGroupOfAllLayers) {
  const Group alone = new_group({get_rank()}, {.use_local_synchronization = true});
  struct OneLayer : torch::nn::Module {
    SyncBatchNorm norm = register_module("norm", SyncBatchNorm(kChannels));
  };
  const auto module = std::make_shared<OneLayer>();
  EXPECT_TRUE(module->norm->process_group.is_default());
  convert_sync_batchnorm(module, alone);
  EXPECT_EQ(module->norm->process_group, alone);
  EXPECT_EQ(convert_sync_batchnorm(BatchNorm1d(kChannels), alone)->process_group, alone);
  SyncBatchNorm norm(kChannels);
  convert_sync_batchnorm(norm, alone);
  EXPECT_EQ(norm->process_group, alone);
}

TEST_F(SyncBatchNormEqualityMultirankTest, KeepsTheDigitsOfBatchesWithALargeMean) {
  const at::Tensor whole = at::randn({8 * get_world_size(), kChannels}) + 1e4;
  BatchNorm1d plain(BatchNormOptions(kChannels).eps(0));
  plain->to(at::kDouble);
  SyncBatchNorm sync(BatchNormOptions(kChannels).eps(0));
  const Rows rows(static_cast<std::size_t>(get_world_size()), 8);
  const at::Tensor expected = plain(whole.to(at::kDouble));
  expect_close(sync(part(whole, rows)), part(expected, rows).to(at::kFloat), 5e-3, "output");
  expect_close(sync->running_var, plain->running_var.to(at::kFloat), 1e-4, "running_var");
}

TEST_F(SyncBatchNormEqualityMultirankTest, AcceptsGradientsAndInputsWithAnyStrides) {
  const Rows rows(static_cast<std::size_t>(get_world_size()), 4);
  const at::Tensor whole = whole_batch(rows, {5});
  BatchNorm1d plain(kChannels);
  SyncBatchNorm sync(kChannels);
  const at::Tensor reordered = whole.permute({2, 1, 0}).contiguous().permute({2, 1, 0});
  const at::Tensor x = whole.clone().requires_grad_(), own = part(reordered, rows).detach();
  own.requires_grad_();
  plain(x).pow(2).sum(1).sum().backward();  // An expanded gradient.
  sync(own).pow(2).sum(1).sum().backward();
  expect_close(own.grad(), part(x.grad(), rows), 1e-4, "input gradient");
}

TEST_F(SyncBatchNormEqualityMultirankTest, EmptyBatchesOnAllRanksChangeNothing) {
  SyncBatchNorm norm(kChannels);
  const at::Tensor x = at::zeros({0, kChannels, 2}).requires_grad_();
  const at::Tensor y = norm(x);
  EXPECT_EQ(y.sizes(), x.sizes());
  y.sum().backward();
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  EXPECT_TRUE(norm->weight.grad().equal(at::zeros({kChannels})));
  EXPECT_TRUE(norm->running_mean.equal(at::zeros({kChannels})));
  EXPECT_TRUE(norm->running_var.equal(at::ones({kChannels})));
}

// Without a momentum, running statistics are the mean over the batches.
TEST_F(SyncBatchNormEqualityMultirankTest, EmptyBatchesOnAllRanksHaveNoShareOfTheMean) {
  SyncBatchNorm norm(BatchNormOptions(kChannels).momentum(std::nullopt));
  norm(at::zeros({0, kChannels, 2}));
  norm(at::stack({at::full({kChannels}, 2.0F), at::full({kChannels}, 4.0F)}));
  EXPECT_TRUE(norm->running_mean.equal(at::full({kChannels}, 3.0F))) << norm->running_mean;
  EXPECT_EQ(norm->num_batches_tracked.item<int>(), 1);
}

TEST_F(SyncBatchNormEqualityMultirankTest, RunsOneCollectiveInForwardAndOneInBackward) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank runs no collective";
  SyncBatchNorm norm(kChannels);
  const auto collectives = [&](const auto& act) {
    const auto before = get_sequence_number();
    act();
    return get_sequence_number() - before;
  };
  const at::Tensor x = at::randn({4, kChannels}).requires_grad_();
  at::Tensor y;
  EXPECT_EQ(collectives([&] { y = norm(x); }), 2);  // One compares the layers.
  EXPECT_EQ(collectives([&] { y = norm(x); }), 1);
  EXPECT_EQ(collectives([&] { y.sum().backward(); }), 1);
  EXPECT_EQ(collectives([&] { norm(x.detach()).sum().backward(); }), 1);  // Parameters only.
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(collectives([&] { norm(x); }), 1);
  }
  norm->eval();
  EXPECT_EQ(collectives([&] { norm(x).sum().backward(); }), 0);
  SyncBatchNorm untracked(BatchNormOptions(kChannels).track_running_stats(false));
  untracked->eval();  // Statistics of this rank's batch, as in Python.
  EXPECT_EQ(collectives([&] { untracked(x); }), 0);
  EXPECT_TRUE(untracked(x).allclose(BatchNorm1d(kChannels)(x), 1e-5, 1e-5));
}

TEST_F(SyncBatchNormEqualityMultirankTest, OneRankRunsNoCollective) {
  const Group alone = new_group({get_rank()}, {.use_local_synchronization = true});
  SyncBatchNorm norm(kChannels, alone);
  const auto before = get_sequence_number(alone);
  norm(at::randn({4, kChannels}).requires_grad_()).sum().backward();
  EXPECT_EQ(get_sequence_number(alone), before);
}

// Only some ranks' inputs require a gradient, so the others take part in the sums of backward.
TEST_F(SyncBatchNormEqualityMultirankTest, OneRankAloneCanNeedTheGradientOfItsInput) {
  const Rows rows(static_cast<std::size_t>(get_world_size()), 4);
  const at::Tensor whole = whole_batch(rows, {});
  BatchNorm1d plain(kChannels);
  SyncBatchNorm sync(kChannels);
  const at::Tensor x = whole.clone().requires_grad_(), factors = at::randn(whole.sizes());
  const at::Tensor own = part(whole, rows).detach().clone().requires_grad_(get_rank() == 0);
  (plain(x) * factors).sum().backward();
  (sync(own) * part(factors, rows)).sum().backward();
  EXPECT_EQ(own.grad().defined(), get_rank() == 0);
  if (get_rank() == 0) expect_close(own.grad(), part(x.grad(), rows), 1e-4, "input gradient");
  expect_close(summed(sync->weight.grad()), plain->weight.grad(), 1e-4, "weight");
}

// Compared with doubles. What remains are the errors of the means, which are floats.
TEST_F(SyncBatchNormEqualityMultirankTest, GradientsOfLargeMeansAreAsExactAsThoseOfBatchNorm) {
  constexpr std::int64_t kOwn = 32, channels = 64;
  const Rows rows(static_cast<std::size_t>(get_world_size()), kOwn);
  for (const double mean : {1e2, 1e4}) {
    SCOPED_TRACE(mean);
    const at::Tensor whole = at::randn({kOwn * get_world_size(), channels, 20}) + mean;
    const at::Tensor factors = at::randn(whole.sizes());
    // The gradients of the input, for the rows of this rank, and of the weight, for all rows.
    const auto gradients = [&](auto norm, const at::Tensor& x, const at::Tensor& its_factors) {
      norm->to(x.scalar_type());
      const at::Tensor input = x.detach().clone().requires_grad_();
      (norm(input) * its_factors.to(x.scalar_type())).sum().backward();
      return std::pair(input.grad().to(at::kDouble), norm->weight.grad().to(at::kDouble));
    };
    const auto exact = gradients(BatchNorm1d(channels), whole.to(at::kDouble), factors);
    const auto plain = gradients(BatchNorm1d(channels), whole, factors);
    const auto own = gradients(SyncBatchNorm(channels), part(whole, rows), part(factors, rows));
    const auto error = [](const at::Tensor& actual, const at::Tensor& expected) {
      return (actual - expected).norm().item<double>();
    };
    EXPECT_LE(error(own.first, part(exact.first, rows)),
              1.2 * error(part(plain.first, rows), part(exact.first, rows)));
    EXPECT_LE(error(summed(own.second), exact.second), 1.2 * error(plain.second, exact.second));
  }
}

TEST_F(SyncBatchNormEqualityMultirankTest, SecondDerivativesThrow) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank uses LibTorch's function";
  SyncBatchNorm norm(kChannels);
  const at::Tensor x = at::randn({4, kChannels}).requires_grad_();
  const auto gradients = torch::autograd::grad({norm(x).pow(3).sum()}, {x}, {}, true, true);
  EXPECT_THAT(
      error_of([&] { gradients[0].sum().backward(); }),
      ::testing::HasSubstr("SyncBatchNorm: second derivatives (create_graph) are not supported"));
}

}  // namespace
}  // namespace distrun
