// Helpers of tests of SyncBatchNorm on every rank of a run.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "backends/test/multirank_test.h"
#include "distrun/sync_batch_norm.h"

namespace distrun {

constexpr std::int64_t kChannels = 3;

class SyncBatchNormMultirankTest : public MultirankTest {
 protected:
  // All ranks draw the same batches.
  void SetUp() override {
    MultirankTest::SetUp();
    torch::manual_seed(11);
  }

  using Rows = std::vector<std::int64_t>;  // Of each rank's batch.

  // Rows of the ranks of a group; a group of one rank cannot have an empty batch.
  static std::vector<Rows> rows_to_try(int ranks) {
    const auto count = static_cast<std::size_t>(ranks);
    Rows even(count, 4), uneven(count), first_empty(count, 3), last_empty(count, 2);
    std::iota(uneven.begin(), uneven.end(), 2);
    if (ranks == 1) return {even, uneven};
    first_empty.front() = 0;
    last_empty.back() = 0;
    return {even, uneven, first_empty, last_empty};
  }

  static at::Tensor part(const at::Tensor& whole, const Rows& rows, int rank = get_rank()) {
    const auto index = static_cast<std::ptrdiff_t>(rank);
    const auto start = std::accumulate(rows.begin(), rows.begin() + index, std::int64_t{0});
    return whole.narrow(0, start, rows[static_cast<std::size_t>(rank)]);
  }
  static at::Tensor whole_batch(const Rows& rows, const std::vector<std::int64_t>& sizes) {
    std::vector<std::int64_t> all = {std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
                                     kChannels};
    all.insert(all.end(), sizes.begin(), sizes.end());
    return at::randn(all) * 2 + 3;
  }

  static void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance,
                           const std::string& what) {
    ASSERT_TRUE(actual.defined()) << what;
    ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
    EXPECT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
    const at::Tensor one = actual.detach().to(at::kDouble),
                     other = expected.detach().to(at::kDouble);
    EXPECT_TRUE(one.allclose(other, tolerance, tolerance))
        << what << " differs by " << (one - other).abs().max().item<double>();
  }

  static at::Tensor summed(const at::Tensor& tensor, const Group& group = {}) {
    const at::Tensor sum = tensor.detach().clone();
    all_reduce(sum, ReduceOp::SUM, {.group = group});
    return sum;
  }
};

}  // namespace distrun
