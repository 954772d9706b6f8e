#include "distrun/power_sgd_hook.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "distrun/collectives.h"
#include "parallel/hooks/mean_future.h"
#include "parallel/hooks/power_sgd_data.h"

namespace distrun {

namespace {

using internal::CompressedBucket;
using internal::LowRank;
using internal::PowerSGDData;

CompressedBucket bucket_of(c10d::GradBucket& bucket, int size) {
  return {.index = static_cast<std::int64_t>(bucket.getIndex()),
          .is_last = bucket.isLast(),
          .size = size,
          .gradients = bucket.getBuffer(),
          .input = bucket.getBuffer()};
}

std::int64_t rank_of(const at::Tensor& matrix, const PowerSGDOptions& options) {
  return std::min({matrix.size(-2), matrix.size(-1), options.matrix_approximation_rank});
}

// Returns the gradients that are compressed, as matrices.  Adds the others to `bucket.whole`.
std::vector<at::Tensor> divide(PowerSGDData& data, const std::vector<at::Tensor>& gradients,
                               CompressedBucket& bucket) {
  std::vector<at::Tensor> matrices;
  for (const at::Tensor& gradient : gradients) {
    const std::int64_t numel = gradient.numel();
    const std::int64_t rows = gradient.dim() == 0 ? 1 : gradient.size(0);
    data.stats.numel_before_compression += numel;
    if (numel > 0) {
      const at::Tensor matrix = gradient.view({rows, numel / rows});
      const std::int64_t compressed = (rows + numel / rows) * rank_of(matrix, data.options);
      if (static_cast<double>(compressed) * data.options.min_compression_rate <
          static_cast<double>(numel)) {
        matrices.push_back(matrix);
        data.stats.numel_after_compression += compressed;
        continue;
      }
    }
    bucket.whole.push_back(gradient);
    data.stats.numel_after_compression += numel;
  }
  return matrices;
}

// Matrices of the same sizes follow each other, also without batches: the random numbers of Q
// depend on the order.
std::vector<LowRank> in_batches(const std::vector<at::Tensor>& matrices, bool batch) {
  std::vector<std::vector<at::Tensor>> of_same_sizes;
  for (const at::Tensor& matrix : matrices) {
    const auto same =
        std::find_if(of_same_sizes.begin(), of_same_sizes.end(),
                     [&](const auto& others) { return others.front().sizes() == matrix.sizes(); });
    if (same == of_same_sizes.end()) {
      of_same_sizes.push_back({matrix});
    } else {
      same->push_back(matrix);
    }
  }
  std::vector<LowRank> parts;
  parts.reserve(matrices.size());
  for (auto& same : of_same_sizes) {
    if (batch && same.size() > 1) {
      const at::Tensor copy = at::stack(same);
      parts.push_back({.matrices = copy, .p = {}, .q = {}, .originals = std::move(same)});
      continue;
    }
    for (const at::Tensor& matrix : same) {
      parts.push_back({.matrices = matrix.unsqueeze(0), .p = {}, .q = {}});
    }
  }
  return parts;
}

// Makes each P and Q a view of the bucket's memory, and prepares the values of Q.
void place_low_ranks(PowerSGDData& data, CompressedBucket& bucket) {
  std::int64_t p_size = 0;
  std::int64_t q_size = 0;
  for (const LowRank& part : bucket.parts) {
    const std::int64_t columns = part.matrices.size(0) * rank_of(part.matrices, data.options);
    p_size += columns * part.matrices.size(1);
    q_size += columns * part.matrices.size(2);
  }
  const bool needs_random_q = data.needs_random_q(bucket.index, p_size, q_size);
  if (needs_random_q) {
    data.ps[bucket.index] = at::empty({p_size}, bucket.input.options());
    data.qs[bucket.index] = at::empty({q_size}, bucket.input.options());
  }
  bucket.p_flat = data.ps.at(bucket.index);
  bucket.q_flat = data.qs.at(bucket.index);
  std::int64_t p_begin = 0;
  std::int64_t q_begin = 0;
  for (LowRank& part : bucket.parts) {
    const auto view = [&, next = rank_of(part.matrices, data.options)](
                          const at::Tensor& flat, std::int64_t& begin, std::int64_t rows) {
      const std::int64_t batch = part.matrices.size(0);
      const at::Tensor mine = flat.narrow(0, begin, batch * rows * next);
      begin += mine.numel();
      return mine.view({batch, rows, next});
    };
    part.p = view(bucket.p_flat, p_begin, part.matrices.size(1));
    part.q = view(bucket.q_flat, q_begin, part.matrices.size(2));
  }
  if (needs_random_q) {
    data.randomize(bucket.parts);
  } else {
    data.reuse(bucket.parts);
  }
}

Future whole_mean(PowerSGDData& data, c10d::GradBucket& bucket, const char* hook) {
  data.bucket_ends(bucket.isLast());
  return internal::mean_future(data.options.process_group, hook, bucket, bucket.getBuffer());
}

}  // namespace

Future powerSGD_hook(const PowerSGDState& state, c10d::GradBucket& bucket) {
  PowerSGDData& data = state.data();
  const Group& group = data.options.process_group;
  const int size = internal::size_for_hook(group, "powerSGD_hook");
  internal::check_dense(bucket.getBuffer(), "powerSGD_hook");
  const at::NoGradGuard no_grad;
  if (data.is_warming_up()) return whole_mean(data, bucket, "powerSGD_hook");

  CompressedBucket compressed = bucket_of(bucket, size);
  if (data.options.use_error_feedback) internal::add_error(compressed, data.errors);
  const auto matrices = divide(data, bucket.getGradients(), compressed);
  data.report_stats(compressed.is_last);
  compressed.whole_flat = at::empty({0}, compressed.input.options());
  if (!compressed.whole.empty()) {
    std::vector<at::Tensor> flat;
    flat.reserve(compressed.whole.size());
    for (const at::Tensor& tensor : compressed.whole) flat.push_back(tensor.view({-1}));
    compressed.whole_flat = at::cat(flat);
  }
  compressed.whole_sum =
      all_reduce(compressed.whole_flat, ReduceOp::SUM, {.group = group, .async_op = true});
  compressed.parts = in_batches(matrices, data.options.batch_tensors_with_same_shape);
  place_low_ranks(data, compressed);
  return data.add(std::move(compressed));
}

Future batched_powerSGD_hook(const PowerSGDState& state, c10d::GradBucket& bucket) {
  PowerSGDData& data = state.data();
  const int size = internal::size_for_hook(data.options.process_group, "batched_powerSGD_hook");
  internal::check_dense(bucket.getBuffer(), "batched_powerSGD_hook");
  const at::NoGradGuard no_grad;
  if (data.is_warming_up()) return whole_mean(data, bucket, "batched_powerSGD_hook");

  CompressedBucket compressed = bucket_of(bucket, size);
  const std::int64_t length = compressed.gradients.numel();
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(length))));
  compressed.input = at::zeros({side * side}, compressed.gradients.options());
  compressed.input.narrow(0, 0, length).copy_(compressed.gradients);
  if (data.options.use_error_feedback) internal::add_error(compressed, data.errors);
  compressed.parts = {{.matrices = compressed.input.view({1, side, side}), .p = {}, .q = {}}};
  data.stats.numel_before_compression += length;
  data.stats.numel_after_compression +=
      side * rank_of(compressed.parts[0].matrices, data.options) * 2;
  data.report_stats(compressed.is_last);
  place_low_ranks(data, compressed);
  return data.add(std::move(compressed));
}

}  // namespace distrun
