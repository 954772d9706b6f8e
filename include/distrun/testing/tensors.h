// EXPECT_TENSORS_EQUAL, EXPECT_TENSORS_CLOSE and their ASSERT_ forms compare tensors.
//
//     EXPECT_TENSORS_EQUAL(x, at::full({3}, 6));
//     EXPECT_TENSORS_CLOSE(outputs, {a, b}) << "after " << n << " steps";
//     EXPECT_TENSORS_CLOSE(x, y, {.rtol = 1e-3, .atol = 1e-3, .equal_nan = true});
//
// Each side of a comparison is a tensor or a list: std::vector<at::Tensor>, at::TensorList, or a
// vector of lists.  The right side can also be {a, b} or {{a, b}, {c}}.  Lists match if they have
// the same length and their members match in order.  Two undefined tensors match.
//
// Both tensors must have the same shape, dtype, layout and kind of device.  The index of the device
// does not matter.  Nothing is broadcast, promoted or moved.  Strides and requires_grad do not
// matter.  Sparse tensors (COO) are coalesced first, and must then have the same indices.
// Therefore, a stored zero differs from an element that is not stored.  With quantized, meta and
// nested tensors, and with other sparse layouts, the assertion fails.
//
// The EQUAL macros compare values exactly.  The CLOSE macros compare as torch.isclose does.  Two
// infinities are equal if they have the same sign.  The default tolerances are those of
// torch.testing.assert_close and TestCase.assertEqual:
//
//     dtype                              rtol      atol
//     Half, ComplexHalf                  1e-3      1e-5
//     BFloat16                           1.6e-2    1e-5
//     Float, ComplexFloat                1.3e-6    1e-5
//     Double, ComplexDouble              1e-7      1e-7
//     every other                        0         0
//
// So EXPECT_TENSORS_CLOSE(x, y) corresponds to assertEqual(x, y) of PyTorch's TestCase, with three
// differences:
//   - NaN does not equal NaN unless .equal_nan is true, as in assert_close.  In assertEqual, NaN
//     equals NaN by default.
//   - Layouts and kinds of device are compared.
//   - Sparse tensors that store the same elements in a different order are equal.
//
// For an exact comparison in which NaN equals NaN, use a CLOSE macro with
// {.rtol = 0, .atol = 0, .equal_nan = true}.
//
// The message of a failure shows this rank, the first wrong element and its values, the number of
// wrong elements, and the largest absolute and relative error.  Each macro counts as one assertion.
// You can append a text with <<, as with GoogleTest's macros.  The ASSERT_ macros return from the
// function at a failure.
//
// Cost: a comparison copies both tensors to the CPU, and converts them to double, int64, uint64 or
// complex double.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distrun/detail/counted_assertions.h"

namespace distrun {

// The tolerances of CLOSE.
struct TensorTolerance {
  // Set both rtol and atol, or neither.  If neither is set, the defaults of the dtype apply.
  std::optional<double> rtol = std::nullopt;
  std::optional<double> atol = std::nullopt;
  // Whether NaN equals NaN.
  bool equal_nan = false;
};

// One side of a comparison.  It contains a tensor, or a list of ComparedTensors.
class ComparedTensors {
 public:
  // Converts from a tensor or a list.
  ComparedTensors(const at::Tensor& tensor) : value_(tensor) {}
  ComparedTensors(at::TensorList list)
      : value_(std::vector<ComparedTensors>(list.begin(), list.end())) {}
  template <class T>
  ComparedTensors(const std::vector<T>& list)
      : value_(std::vector<ComparedTensors>(list.begin(), list.end())) {}
  ComparedTensors(std::initializer_list<ComparedTensors> list)
      : value_(std::vector<ComparedTensors>(list)) {}

  // Returns the tensor, or null if this is a list.
  const at::Tensor* tensor() const { return std::get_if<at::Tensor>(&value_); }
  // Returns the list, or null if this is a tensor.
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

// Braces do not group a macro's arguments, so `...` takes everything after the first comma.
#define DISTRUN_TENSORS_(compare, fail, actual, ...) \
  GTEST_ASSERT_(::distrun::internal::compare(#actual, #__VA_ARGS__, actual, __VA_ARGS__), fail)

// The arguments are (actual, expected).  Compares the tensors exactly.
#define EXPECT_TENSORS_EQUAL(actual, ...) \
  DISTRUN_TENSORS_(tensors_equal, GTEST_NONFATAL_FAILURE_, actual, __VA_ARGS__)
// Does the same and returns from the function at a failure.
#define ASSERT_TENSORS_EQUAL(actual, ...) \
  DISTRUN_TENSORS_(tensors_equal, GTEST_FATAL_FAILURE_, actual, __VA_ARGS__)

// The arguments are (actual, expected) or (actual, expected, TensorTolerance).  Compares the
// tensors within a tolerance.
#define EXPECT_TENSORS_CLOSE(actual, ...) \
  DISTRUN_TENSORS_(tensors_close, GTEST_NONFATAL_FAILURE_, actual, __VA_ARGS__)
// Does the same and returns from the function at a failure.
#define ASSERT_TENSORS_CLOSE(actual, ...) \
  DISTRUN_TENSORS_(tensors_close, GTEST_FATAL_FAILURE_, actual, __VA_ARGS__)
