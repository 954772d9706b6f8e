// Compares the elements of two tensors, for EXPECT_TENSORS_CLOSE (tensors.h).
//
// An element is right if it equals the expected one, or is finite and differs by at most atol +
// rtol * |expected|, or, with equal_nan, if both are NaN. This is torch.isclose in exact
// arithmetic: nothing overflows, and large integers that a float cannot distinguish still differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::internal {

using TensorIndex = std::vector<std::int64_t>;

struct ElementTolerance {
  double rtol = 0;
  double atol = 0;
  bool equal_nan = false;
};

// The largest error of wrong elements; NaN exceeds any number.
struct LargestError {
  long double value = -1;
  TensorIndex at;
};

struct TensorDifference {
  std::int64_t elements = 0;
  std::int64_t wrong = 0;
  TensorIndex first;             // The first wrong element in row-major order.
  std::string actual, expected;  // The values at `first`.
  LargestError absolute;
  LargestError relative;  // To the expected value; infinite if that is zero.
};

// nullopt if every element is right or there are none.
//
// REQUIRES: both strided, of equal shape and dtype, not quantized; any device.
std::optional<TensorDifference> difference_of(const at::Tensor& actual, const at::Tensor& expected,
                                              const ElementTolerance& tolerance);

// "[1, 0]"; "[]" for a tensor without dimensions.
std::string text_of(const TensorIndex& index);

}  // namespace distrun::internal
