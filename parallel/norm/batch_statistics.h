// The mathematics of batch normalization over the batches of several ranks, without communication.
//
// The dimensions of a batch are [N, C, ...]. Statistics have one element for each of the C
// channels.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

// Statistics are float for half, bfloat16 and float, and double for double.
at::ScalarType statistics_dtype(at::ScalarType input);

// The number of elements of each channel.
std::int64_t values_per_channel(const at::Tensor& input);

struct BatchStatistics {
  at::Tensor mean;
  at::Tensor variance;     // Divided by the count, not by one less.
  std::int64_t count = 0;  // Values per channel; without a value, the others are zero.
};
BatchStatistics statistics_of(const at::Tensor& input);

// Merges the statistics of R batches: `counts` has the sizes [R], and the others [R, C]. All are
// doubles. `count` is the sum of `counts`.
BatchStatistics merged_statistics(const at::Tensor& counts, const at::Tensor& means,
                                  const at::Tensor& variances, std::int64_t count);

// Moves running statistics towards those of a batch: with 0.1, by a tenth of the way.
void update_running_statistics(const at::Tensor& running_mean, const at::Tensor& running_var,
                               const BatchStatistics& batch, double factor);

// What normalization does to a channel. All have the dtype of the statistics.
struct Normalization {
  at::Tensor mean;
  at::Tensor mean_rest;  // What `mean` lacks of the mean, because it is rounded to the dtype.
  at::Tensor invstd;     // 1 / sqrt(variance + eps)
  at::Tensor weight;     // May be undefined.
  at::Tensor bias;       // May be undefined.
};
// Casts all to the dtype of the statistics of `input`.
Normalization normalization(const at::Tensor& input, const BatchStatistics& batch, double eps,
                            const at::Tensor& weight, const at::Tensor& bias);

at::Tensor normalized(const at::Tensor& input, const Normalization& by);

// The sums over a batch from which all gradients are computed.
struct GradientSums {
  at::Tensor of_gradient;    // Of dy.
  at::Tensor of_covariance;  // Of dy * (x - mean).
};
GradientSums gradient_sums(const at::Tensor& gradient, const at::Tensor& input,
                           const Normalization& by);

// The gradient of the input. `sums` and `count` are those of the batches of all ranks.
at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& input,
                          const Normalization& by, const GradientSums& sums, std::int64_t count);

}  // namespace distrun::internal
