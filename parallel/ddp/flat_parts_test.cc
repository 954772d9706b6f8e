#include "parallel/ddp/flat_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

TEST(FlatPartsTest, PartsAreViewsWithTheStridesOfDenseParameters) {
  const at::Tensor transposed = at::ones({2, 3}).t(), scalar = at::ones({});
  const at::Tensor with_gaps = at::ones({4, 4}).slice(1, 0, 2), empty = at::ones({0, 5});
  // The flat tensor begins in the middle of its memory.
  const at::Tensor flat = at::arange(20, at::kFloat).narrow(0, 5, 15);
  const auto parts = parts_like(flat, {transposed, empty, with_gaps, scalar});
  ASSERT_EQ(parts.size(), 4);
  EXPECT_EQ(parts[0].strides(), transposed.strides());
  EXPECT_TRUE(parts[0].equal(at::arange(5, 11, at::kFloat).view({2, 3}).t())) << parts[0];
  EXPECT_EQ(parts[1].sizes(), empty.sizes());
  EXPECT_TRUE(parts[2].is_contiguous());
  EXPECT_TRUE(parts[2].equal(at::arange(11, 19, at::kFloat).view({4, 2}))) << parts[2];
  EXPECT_EQ(parts[3].dim(), 0);
  EXPECT_EQ(parts[3].item<float>(), 19);
  for (const at::Tensor& one : parts) EXPECT_TRUE(one.is_alias_of(flat));
}

}  // namespace
}  // namespace distrun::internal
