#include "distrun/testing/tensors.h"

#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ostream.h>

#include "testsuites/testing/tensor_difference.h"

template <>
struct fmt::formatter<c10::ScalarType> : fmt::ostream_formatter {};
template <>
struct fmt::formatter<c10::Layout> : fmt::ostream_formatter {};
template <>
struct fmt::formatter<c10::DeviceType> : fmt::ostream_formatter {};

namespace distrun::internal {

namespace {

// The difference in lines; empty if there is none.
using Complaint = std::optional<std::string>;

// From _DTYPE_PRECISIONS in torch/testing/_comparison.py.
ElementTolerance tolerance_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
    case at::kComplexHalf:
      return {1e-3, 1e-5};
    case at::kBFloat16:
      return {1.6e-2, 1e-5};
    case at::kFloat:
    case at::kComplexFloat:
      return {1.3e-6, 1e-5};
    case at::kDouble:
    case at::kComplexDouble:
      return {1e-7, 1e-7};
    default:
      return {0, 0};
  }
}

ElementTolerance tolerance_for(const at::Tensor& tensor, const TensorTolerance& asked) {
  ElementTolerance tolerance = tolerance_of(tensor.scalar_type());
  if (asked.rtol && asked.atol) tolerance = {*asked.rtol, *asked.atol};
  tolerance.equal_nan = asked.equal_nan;
  return tolerance;
}

template <class T>
Complaint compare_attribute(const char* name, const T& actual, const T& expected) {
  if (actual == expected) return std::nullopt;
  return fmt::format("{} {}, expected {}", name, actual, expected);
}

std::string shape_of(const at::Tensor& tensor) { return text_of(tensor.sizes().vec()); }

// Rejects tensors that could only be compared in part.
Complaint refuse(const at::Tensor& tensor) {
  const auto layout = tensor.layout();
  if (tensor.is_quantized()) return "is quantized: compare what dequantize() gives";
  if (tensor.is_meta()) return "is a meta tensor: it has no values to compare";
  if (layout != at::kStrided && layout != at::kSparse) {
    return fmt::format("has the layout {}: compare what to_dense() gives", layout);
  }
  return std::nullopt;
}

Complaint compare_attributes(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.is_nested() || expected.is_nested()) {  // Nested tensors have no sizes().
    return "one of them is nested: compare what unbind() gives";
  }
  Complaint wrong = compare_attribute("shape", shape_of(actual), shape_of(expected));
  if (!wrong) wrong = compare_attribute("dtype", actual.scalar_type(), expected.scalar_type());
  if (!wrong) wrong = compare_attribute("layout", actual.layout(), expected.layout());
  if (!wrong) {
    wrong = compare_attribute("device", actual.device().type(), expected.device().type());
  }
  return wrong ? wrong : refuse(actual);
}

std::string text_of_error(const LargestError& error) {
  return fmt::format("{:.6g} at {}", error.value, text_of(error.at));
}

Complaint compare_values(const at::Tensor& actual, const at::Tensor& expected,
                         const ElementTolerance& tolerance, const char* of = "") {
  const auto found = difference_of(actual, expected, tolerance);
  if (!found) return std::nullopt;
  return fmt::format(
      "{} of {} elements differ{}, the first at {}: {}, expected {}\n"
      "largest absolute error {}, largest relative error {}\n"
      "allowed for {}: rtol {}, atol {}",
      found->wrong, found->elements, of, text_of(found->first), found->actual, found->expected,
      text_of_error(found->absolute), text_of_error(found->relative), actual.scalar_type(),
      tolerance.rtol, tolerance.atol);
}

Complaint compare_sparse(const at::Tensor& actual, const at::Tensor& expected,
                         const ElementTolerance& tolerance) {
  const at::Tensor ours = actual.coalesce();
  const at::Tensor theirs = expected.coalesce();
  const auto ours_at = ours.indices();
  const auto theirs_at = theirs.indices();
  if (auto wrong = compare_attribute("number of sparse dimensions, number of stored values",
                                     shape_of(ours_at), shape_of(theirs_at))) {
    return wrong;
  }
  if (auto wrong = compare_values(ours_at, theirs_at, {}, " in the sparse indices")) return wrong;
  return compare_values(ours.values(), theirs.values(), tolerance, " in the stored values");
}

Complaint compare_tensors(const at::Tensor& actual, const at::Tensor& expected,
                          const TensorTolerance& asked) {
  if (!actual.defined() && !expected.defined()) return std::nullopt;
  if (!actual.defined()) return "is undefined, expected a tensor";
  if (!expected.defined()) return "is a tensor, expected an undefined one";
  if (auto wrong = compare_attributes(actual, expected)) return wrong;
  const ElementTolerance tolerance = tolerance_for(actual, asked);
  return actual.is_sparse() ? compare_sparse(actual, expected, tolerance)
                            : compare_values(actual, expected, tolerance);
}

Complaint compare(const ComparedTensors& actual, const ComparedTensors& expected,
                  const TensorTolerance& asked) {
  if (actual.tensor() && expected.tensor()) {
    return compare_tensors(*actual.tensor(), *expected.tensor(), asked);
  }
  if (actual.tensor()) return "is a tensor, expected a list";
  if (expected.tensor()) return "is a list, expected a tensor";
  const auto& ours = *actual.list();
  const auto& theirs = *expected.list();
  if (auto wrong = compare_attribute("length", ours.size(), theirs.size())) return wrong;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (auto wrong = compare(ours[i], theirs[i], asked)) {
      return fmt::format("member {}: {}", i, *wrong);
    }
  }
  return std::nullopt;
}

std::string rank_prefix() {
  const char* rank = std::getenv("RANK");
  return rank == nullptr ? "" : fmt::format("rank {}: ", rank);
}

}  // namespace

::testing::AssertionResult tensors_close(const char* actual_text, const char* expected_text,
                                         const ComparedTensors& actual,
                                         const ComparedTensors& expected,
                                         const TensorTolerance& tolerance) {
  Complaint wrong;
  if (tolerance.rtol.has_value() != tolerance.atol.has_value()) {
    wrong = "give both rtol and atol, or neither";
  } else {
    wrong = compare(actual, expected, tolerance);
  }
  if (!wrong) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << rank_prefix() << actual_text << " is not " << expected_text << "\n"
         << *wrong;
}

::testing::AssertionResult tensors_equal(const char* actual_text, const char* expected_text,
                                         const ComparedTensors& actual,
                                         const ComparedTensors& expected) {
  return tensors_close(actual_text, expected_text, actual, expected, {.rtol = 0, .atol = 0});
}

}  // namespace distrun::internal
