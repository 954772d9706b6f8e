// Assertions about tensors.
//
//     EXPECT_TENSORS_EQUAL(x, at::full({3}, 6));
//     EXPECT_TENSORS_CLOSE(outputs, {a, b}) << "after " << n << " steps";
//     EXPECT_TENSORS_CLOSE(x, y, {.rtol = 1e-3, .atol = 1e-3, .equal_nan = true});
//
// On either side stands a tensor or a list: std::vector<at::Tensor>, at::TensorList, vectors of
// those, and on the right also {a, b} and {{a, b}, {c}}.  Lists are alike where they are of one
// length and their members are alike, in order.  Undefined tensors are alike.
//
// Shape, dtype, layout and kind of device (not its number) have to be the same: nothing is
// broadcast, promoted or moved.  Strides, requires_grad and whether a sparse tensor is coalesced
// do not matter; sparse tensors are coalesced first, and then have the same indices, so that a zero
// that is stored is not one that is left out.
//
// EQUAL means equal values.  CLOSE means what torch.isclose does, by default with the tolerances of
// TestCase.assertEqual, which are those of torch.testing.assert_close:
//
//     dtype                              rtol      atol
//     Half, ComplexHalf                  1e-3      1e-5
//     BFloat16                           1.6e-2    1e-5
//     Float, ComplexFloat                1.3e-6    1e-5
//     Double, ComplexDouble              1e-7      1e-7
//     every other                        0         0
//
// So Python's assertEqual(x, y) is EXPECT_TENSORS_CLOSE(x, y), but that this one is stricter in
// three things: NaN is not equal to NaN unless .equal_nan is given (assertEqual takes them for
// equal, assert_close does not); layouts and kinds of device are compared; and two sparse tensors
// that differ only in the order of what they store are alike here.  Infinities are close to
// themselves alone.  For values that are equal and may be NaN: CLOSE with
// {.rtol = 0, .atol = 0, .equal_nan = true}.
//
// A failure says which rank this is, where the first wrong element is and what stands there, how
// many are wrong, and the largest absolute and relative error.  Each macro counts as one assertion
// and takes << as GoogleTest's own do; ASSERT_* return from the function.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/detail/counted_assertions.h"

namespace distrun {

// Both of rtol and atol, or neither: then the defaults of the dtype.
struct TensorTolerance {
  std::optional<double> rtol = std::nullopt;
  std::optional<double> atol = std::nullopt;
  bool equal_nan = false;
};

// A tensor, or a list of these.  Holds references to the tensors, as at::Tensor does.
class ComparedTensors {
 public:
  ComparedTensors(const at::Tensor& tensor) : value_(tensor) {}
  ComparedTensors(at::TensorList list)
      : value_(std::vector<ComparedTensors>(list.begin(), list.end())) {}
  template <class T>
  ComparedTensors(const std::vector<T>& list)
      : value_(std::vector<ComparedTensors>(list.begin(), list.end())) {}
  ComparedTensors(std::initializer_list<ComparedTensors> list)
      : value_(std::vector<ComparedTensors>(list)) {}

  // Null where it is the other.
  const at::Tensor* tensor() const { return std::get_if<at::Tensor>(&value_); }
  const std::vector<ComparedTensors>* list() const {
    return std::get_if<std::vector<ComparedTensors>>(&value_);
  }

 private:
  std::variant<at::Tensor, std::vector<ComparedTensors>> value_;
};

namespace internal {

// The texts are those of the macro's arguments.
::testing::AssertionResult tensors_equal(const char* actual_text, const char* expected_text,
                                         const ComparedTensors& actual,
                                         const ComparedTensors& expected);
::testing::AssertionResult tensors_close(const char* actual_text, const char* expected_text,
                                         const ComparedTensors& actual,
                                         const ComparedTensors& expected,
                                         const TensorTolerance& tolerance = {});

}  // namespace internal
}  // namespace distrun

// Braces do not hold a macro's argument together: what follows the first comma is all one.
#define DISTRUN_TENSORS_(compare, fail, actual, ...) \
  GTEST_ASSERT_(::distrun::internal::compare(#actual, #__VA_ARGS__, actual, __VA_ARGS__), fail)

// (actual, expected)
#define EXPECT_TENSORS_EQUAL(actual, ...) \
  DISTRUN_TENSORS_(tensors_equal, GTEST_NONFATAL_FAILURE_, actual, __VA_ARGS__)
#define ASSERT_TENSORS_EQUAL(actual, ...) \
  DISTRUN_TENSORS_(tensors_equal, GTEST_FATAL_FAILURE_, actual, __VA_ARGS__)

// (actual, expected) or (actual, expected, TensorTolerance)
#define EXPECT_TENSORS_CLOSE(actual, ...) \
  DISTRUN_TENSORS_(tensors_close, GTEST_NONFATAL_FAILURE_, actual, __VA_ARGS__)
#define ASSERT_TENSORS_CLOSE(actual, ...) \
  DISTRUN_TENSORS_(tensors_close, GTEST_FATAL_FAILURE_, actual, __VA_ARGS__)
