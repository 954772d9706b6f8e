#include "parallel/norm/batch_statistics.h"

#include <cmath>
#include <tuple>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

namespace distrun::internal {
namespace {

const std::vector<std::vector<std::int64_t>> kAllSizes = {
    {5, 3}, {4, 3, 7}, {2, 3, 4, 5}, {2, 3, 2, 3, 4}};

// Dimensions other than the channels.
std::vector<std::int64_t> reduced_dims(const at::Tensor& x) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

class BatchStatisticsTest : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(3); }

  static void expect_statistics(const BatchStatistics& actual, const at::Tensor& x,
                                double tolerance) {
    const auto [variance, mean] =
        at::var_mean(x.to(at::kDouble), reduced_dims(x), /*correction=*/0, /*keepdim=*/false);
    EXPECT_TRUE(actual.mean.to(at::kDouble).allclose(mean, tolerance, tolerance));
    EXPECT_TRUE(actual.variance.to(at::kDouble).allclose(variance, tolerance, tolerance));
    EXPECT_EQ(actual.count, x.numel() / x.size(1));
  }

  static BatchStatistics merged(const std::vector<at::Tensor>& batches) {
    std::vector<double> counts;
    std::vector<at::Tensor> means, variances;
    double count = 0;
    for (const at::Tensor& batch : batches) {
      const BatchStatistics own = statistics_of(batch);
      counts.push_back(static_cast<double>(own.count));
      count += counts.back();
      means.push_back(own.mean.to(at::kDouble));
      variances.push_back(own.variance.to(at::kDouble));
    }
    return merged_statistics(at::tensor(counts, at::kDouble), at::stack(means),
                             at::stack(variances), std::llround(count));
  }
};

TEST_F(BatchStatisticsTest, AreThoseOfTheBatchInAnyShapeAndLayout) {
  for (const auto& sizes : kAllSizes) {
    SCOPED_TRACE(at::IntArrayRef(sizes));
    const at::Tensor x = at::randn(sizes) * 2 + 3;
    expect_statistics(statistics_of(x), x, 1e-5);
    expect_statistics(statistics_of(x.to(at::kDouble)), x, 1e-12);
    const at::Tensor other = x.transpose(0, 1).contiguous().transpose(0, 1);
    expect_statistics(statistics_of(other), x, 1e-5);
  }
}

TEST_F(BatchStatisticsTest, OfHalfAreComputedInFloat) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor x = (at::randn({100, 3, 5}) + 3).to(dtype);
    const BatchStatistics actual = statistics_of(x);
    EXPECT_EQ(actual.mean.scalar_type(), at::kFloat);
    EXPECT_EQ(actual.variance.scalar_type(), at::kFloat);
    expect_statistics(actual, x, 1e-5);
  }
}

TEST_F(BatchStatisticsTest, OfAnEmptyBatchAreZero) {
  const BatchStatistics actual = statistics_of(at::zeros({0, 3, 4}));
  EXPECT_EQ(actual.count, 0);
  EXPECT_TRUE(actual.mean.equal(at::zeros({3})));
  EXPECT_TRUE(actual.variance.equal(at::zeros({3})));
}

TEST_F(BatchStatisticsTest, OfUnevenBatchesMergeToThoseOfAll) {
  const std::vector<at::Tensor> batches = {at::randn({1, 3, 2}), at::zeros({0, 3, 2}),
                                           at::randn({7, 3, 2}) * 3 - 5, at::randn({2, 3, 2}) + 10};
  expect_statistics(merged(batches), at::cat(batches), 1e-5);
}

TEST_F(BatchStatisticsTest, OfEmptyBatchesMergeToNone) {
  const BatchStatistics actual = merged({at::zeros({0, 3}), at::zeros({0, 3})});
  EXPECT_EQ(actual.count, 0);
  EXPECT_TRUE(actual.variance.equal(at::zeros({3}, at::kDouble)));
}

// The mean of the squares, 1e10, has no digit left in float for a variance of 1.
TEST_F(BatchStatisticsTest, KeepSmallVariancesOfLargeMeans) {
  const std::vector<at::Tensor> batches = {at::randn({50, 2}) + 1e5, at::randn({20, 2}) + 1e5};
  const auto [variance, mean] =
      at::var_mean(at::cat(batches).to(at::kDouble), std::vector<std::int64_t>{0}, 0, false);
  EXPECT_TRUE(merged(batches).variance.allclose(variance, 0.01));
}

TEST_F(BatchStatisticsTest, RunningStatisticsUseTheUnbiasedVariance) {
  const at::Tensor mean = at::zeros({2}), variance = at::ones({2});
  const BatchStatistics batch = {at::full({2}, 10.0, at::kDouble), at::full({2}, 3.0, at::kDouble),
                                 4};
  update_running_statistics(mean, variance, batch, 0.25);
  EXPECT_TRUE(mean.allclose(at::full({2}, 2.5)));
  EXPECT_TRUE(variance.allclose(at::full({2}, 0.75 + 0.25 * 4)));
}

// Autograd's gradients of LibTorch's operator are the reference.
TEST_F(BatchStatisticsTest, GradientsAreThoseOfBatchNorm) {
  for (const auto& sizes : kAllSizes) {
    for (const bool is_affine : {true, false}) {
      SCOPED_TRACE(at::IntArrayRef(sizes));
      const at::Tensor x = (at::randn(sizes) * 2 + 3).requires_grad_();
      const at::Tensor weight = is_affine ? at::randn({3}).requires_grad_() : at::Tensor();
      const at::Tensor bias = is_affine ? at::randn({3}).requires_grad_() : at::Tensor();
      const at::Tensor gradient = at::randn(sizes);
      const at::Tensor expected =
          at::batch_norm(x, weight, bias, {}, {}, /*training=*/true, 0.1, 1e-3, false);
      expected.backward(gradient);

      const at::Tensor input = x.detach();
      const BatchStatistics batch = statistics_of(input);
      const Normalization by =
          normalization(input, batch, 1e-3, is_affine ? weight.detach() : weight,
                        is_affine ? bias.detach() : bias);
      EXPECT_TRUE(normalized(input, by).allclose(expected.detach(), 1e-5, 1e-5));
      const GradientSums sums = gradient_sums(gradient, input, by);
      EXPECT_TRUE(
          input_gradient(gradient, input, by, sums, batch.count).allclose(x.grad(), 1e-4, 1e-5));
      if (!is_affine) continue;
      EXPECT_TRUE((sums.of_covariance * by.invstd).allclose(weight.grad(), 1e-4, 1e-4));
      EXPECT_TRUE(sums.of_gradient.allclose(bias.grad(), 1e-4, 1e-4));
    }
  }
}

// A float has no digit left for a tenth of a deviation after the products of such values. The
// statistics are exact, so that only the gradients lose digits.
TEST_F(BatchStatisticsTest, GradientsKeepTheirDigitsIfMeansAreLarge) {
  const at::Tensor x = at::randn({40, 64}) + 1e4, gradient = at::randn(x.sizes());
  const at::Tensor in_double = x.to(at::kDouble).requires_grad_();
  const at::Tensor weight = at::ones({64}, at::kDouble).requires_grad_();
  at::batch_norm(in_double, weight, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false)
      .backward(gradient.to(at::kDouble));
  const BatchStatistics batch = statistics_of(in_double.detach());
  const Normalization by = normalization(x, batch, 1e-5, {}, {});
  const GradientSums sums = gradient_sums(gradient, x, by);
  const auto error = [](const at::Tensor& actual, const at::Tensor& expected) {
    return ((actual.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
  };
  EXPECT_LT(error(input_gradient(gradient, x, by, sums, batch.count), in_double.grad()), 5e-7);
  EXPECT_LT(error(sums.of_covariance * by.invstd, weight.grad()), 5e-7);
}

// Large enough for several parts, the last of which is smaller.
TEST_F(BatchStatisticsTest, GradientsOfHalfAreComputedInFloatInParts) {
  const std::int64_t size = std::int64_t{at::get_num_threads()} << 13;
  const at::Tensor x = at::randn({7, 3, size}).to(at::kBFloat16);
  const at::Tensor gradient = at::randn({7, 3, size}).to(at::kBFloat16);
  const auto compute = [&](const at::Tensor& input, const at::Tensor& its_gradient) {
    const BatchStatistics batch = statistics_of(input);
    const Normalization by = normalization(input, batch, 1e-5, {}, {});
    const GradientSums sums = gradient_sums(its_gradient, input, by);
    return input_gradient(its_gradient, input, by, sums, batch.count);
  };
  const at::Tensor expected = compute(x.to(at::kFloat), gradient.to(at::kFloat));
  const at::Tensor actual = compute(x, gradient);
  EXPECT_EQ(actual.scalar_type(), at::kBFloat16);
  // Rounded once, at the end.
  EXPECT_TRUE(actual.to(at::kFloat).allclose(expected, 1.0 / 256, 1e-5));
}

TEST_F(BatchStatisticsTest, ResultsKeepTheMemoryFormat) {
  const at::Tensor x = at::randn({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const BatchStatistics batch = statistics_of(x);
  const Normalization by = normalization(x, batch, 1e-5, {}, {});
  EXPECT_TRUE(normalized(x, by).is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(input_gradient(x, x, by, gradient_sums(x, x, by), batch.count)
                  .is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace
}  // namespace distrun::internal
