#include "parallel/norm/batch_statistics.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm_update_stats.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace distrun::internal {

namespace {

at::TensorOptions options_of_statistics(const at::Tensor& input) {
  return input.options().dtype(statistics_dtype(input.scalar_type()));
}

// x * scale + shift for each channel, computed in the dtype of the statistics. Batch normalization
// by given statistics is the only operator that does this in one pass, for every dtype.
at::Tensor scaled_and_shifted(const at::Tensor& x, const at::Tensor& scale,
                              const at::Tensor& shift) {
  const at::Tensor zeros = at::zeros(scale.sizes(), scale.options());
  const at::Tensor ones = at::ones(scale.sizes(), scale.options());
  return std::get<0>(at::native_batch_norm(x, scale, shift, /*running_mean=*/zeros,
                                           /*running_var=*/ones, /*training=*/false,
                                           /*momentum=*/0, /*eps=*/0));
}

// Sizes that broadcast over a batch.
at::Tensor for_batch(const at::Tensor& statistic, const at::Tensor& batch) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(batch.dim()), 1);
  sizes[1] = statistic.numel();
  return statistic.view(sizes);
}

// How many rows of half or bfloat16 are converted to float at a time: on a CPU, so many that they
// stay in its cache; on other devices, so many that they occupy the device but not its memory.
std::int64_t rows_at_once(const at::Tensor& batch) {
  const std::int64_t elements =
      batch.is_cpu() ? std::int64_t{at::get_num_threads()} << 16 : std::int64_t{1} << 24;
  return std::max<std::int64_t>(1, elements * batch.size(0) / batch.numel());
}

}  // namespace

at::ScalarType statistics_dtype(at::ScalarType input) {
  return input == at::kDouble ? at::kDouble : at::kFloat;
}

std::int64_t values_per_channel(const at::Tensor& input) { return input.numel() / input.size(1); }

BatchStatistics statistics_of(const at::Tensor& input) {
  const auto options = options_of_statistics(input);
  at::Tensor mean = at::zeros({input.size(1)}, options);
  at::Tensor variance = at::ones({input.size(1)}, options);
  if (input.numel() == 0) return {mean, variance.zero_(), 0};
  // The operator computes statistics in the dtype of the running ones, which keep their values.
  std::tie(mean, variance) = at::batch_norm_update_stats(input, mean, variance, /*momentum=*/0);
  return {mean, variance, values_per_channel(input)};
}

BatchStatistics merged_statistics(const at::Tensor& counts, const at::Tensor& means,
                                  const at::Tensor& variances, std::int64_t count) {
  if (count == 0) return {means[0], variances[0], 0};
  const at::Tensor shares = (counts / static_cast<double>(count)).unsqueeze(1);
  at::Tensor mean = (means * shares).sum(0);
  // Not the mean of squares less the square of the mean: their difference loses digits.
  at::Tensor variance = ((variances + (means - mean).square()) * shares).sum(0);
  return {std::move(mean), std::move(variance), count};
}

void update_running_statistics(const at::Tensor& running_mean, const at::Tensor& running_var,
                               const BatchStatistics& batch, double factor) {
  const auto count = static_cast<double>(batch.count);
  const auto move = [&](const at::Tensor& running, const at::Tensor& to) {
    running.mul_(1 - factor).add_(to.to(running.scalar_type()), factor);
  };
  move(running_mean, batch.mean);
  move(running_var, batch.variance * (count / (count - 1)));
}

Normalization normalization(const at::Tensor& input, const BatchStatistics& batch, double eps,
                            const at::Tensor& weight, const at::Tensor& bias) {
  const auto dtype = statistics_dtype(input.scalar_type());
  const auto cast = [&](const at::Tensor& one) { return one.defined() ? one.to(dtype) : one; };
  const at::Tensor mean = cast(batch.mean);
  return {mean, cast(batch.mean - mean), cast((batch.variance + eps).rsqrt()), cast(weight),
          cast(bias)};
}

at::Tensor normalized(const at::Tensor& input, const Normalization& by) {
  if (input.numel() == 0) return at::empty_like(input);
  const at::Tensor scale = by.weight.defined() ? by.weight * by.invstd : by.invstd;
  const at::Tensor shift = by.mean * scale.neg();
  return scaled_and_shifted(input, scale, by.bias.defined() ? by.bias + shift : shift);
}

GradientSums gradient_sums(const at::Tensor& gradient, const at::Tensor& input,
                           const Normalization& by) {
  if (input.numel() == 0) {
    const at::Tensor zeros = at::zeros_like(by.mean);
    return {zeros, zeros};
  }
  const at::Tensor ones = at::ones_like(by.mean);
  // These are the gradients of the bias and of the weight if the variance is one.
  auto [none, of_covariance, of_gradient] = at::native_batch_norm_backward(
      gradient, input, ones, /*running_mean=*/by.mean, /*running_var=*/ones, /*save_mean=*/{},
      /*save_invstd=*/{}, /*train=*/false, /*eps=*/0, std::array<bool, 3>{false, true, true});
  of_covariance.addcmul_(of_gradient, by.mean_rest, -1);
  return {std::move(of_gradient), std::move(of_covariance)};
}

at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input,
                          const Normalization& by, const GradientSums& sums, std::int64_t count) {
  if (input.numel() == 0) return at::empty_like(input);
  const auto dtype = by.mean.scalar_type();
  const auto values = static_cast<double>(count);
  const at::Tensor scale = by.weight.defined() ? by.weight * by.invstd : by.invstd;
  const at::Tensor slope = scale * by.invstd.square() * (sums.of_covariance / values).to(dtype);
  const at::Tensor mean_gradient = (sums.of_gradient / values).to(dtype);
  // scale * (dy - mean of dy) - slope * (x - mean)
  const at::Tensor minus_slope = slope.neg();
  const at::Tensor shift = slope * by.mean_rest - scale * mean_gradient;
  const at::Tensor factor = for_batch(scale, input), mean = for_batch(by.mean, input);
  const auto of_part = [&](const at::Tensor& dy, const at::Tensor& x) {
    return scaled_and_shifted(x - mean, minus_slope, shift).addcmul_(dy, factor);
  };
  if (input.scalar_type() == dtype) return of_part(gradient, input);
  at::Tensor result = at::empty_like(input);
  const std::int64_t rows = rows_at_once(input);
  for (std::int64_t row = 0; row < input.size(0); row += rows) {
    const auto part = [&](const at::Tensor& whole) {
      return whole.narrow(0, row, std::min(rows, whole.size(0) - row));
    };
    part(result).copy_(of_part(part(gradient).to(dtype), part(input).to(dtype)));
  }
  return result;
}

}  // namespace distrun::internal
