// Where two tensors differ, and by how much: arithmetic only, for EXPECT_TENSORS_CLOSE (tensors.h).
//
// An element is right where it equals the expected one, or is finite and within
// atol + rtol * |expected| of it; with equal_nan also where both are NaN.  That is torch.isclose,
// in an arithmetic that holds every value and every difference of two integers exactly: nothing
// overflows, and two large integers are not taken for one another because a float cannot tell them
// apart.
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

// An error of one element among those that are not right.  NaN is larger than any other.
struct LargestError {
  long double value = -1;
  TensorIndex at;
};

struct TensorDifference {
  std::int64_t elements = 0;
  std::int64_t wrong = 0;
  TensorIndex first;             // The first wrong one, in row-major order.
  std::string actual, expected;  // The values there.
  LargestError absolute;
  LargestError relative;  // To the expected value; infinite where that is zero.
};

// Nothing where every element is right, so also where there is none.
//
// REQUIRES: both are strided, of the same shape and dtype; of any device.  Not quantized.
std::optional<TensorDifference> difference_of(const at::Tensor& actual, const at::Tensor& expected,
                                              const ElementTolerance& tolerance);

// "[1, 0]", of a tensor without dimensions "[]".
std::string text_of(const TensorIndex& index);

}  // namespace distrun::internal
