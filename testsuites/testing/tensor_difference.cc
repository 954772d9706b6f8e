#include "testsuites/testing/tensor_difference.h"

#include <cmath>
#include <limits>

#include <c10/core/ScalarType.h>
#include <c10/util/complex.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace distrun::internal {

namespace {

using Real = long double;
static_assert(std::numeric_limits<Real>::digits >= 64,
              "a number must hold every int64 and uint64, and the difference of any two");

struct Element {
  Real real = 0;
  Real imaginary = 0;

  bool operator==(const Element&) const = default;
  bool is_nan() const { return std::isnan(real) || std::isnan(imaginary); }
};

Real size_of(const Element& element) { return std::hypot(element.real, element.imaginary); }

Real distance(const Element& a, const Element& b) {
  return size_of({a.real - b.real, a.imaginary - b.imaginary});
}

// Prints a number in its dtype: a float widened to double would have other digits.
std::string text_of_number(Real value, bool as_double) {
  return as_double ? fmt::format("{}", static_cast<double>(value))
                   : fmt::format("{}", static_cast<float>(value));
}

// The elements in row-major order, for any device, strides and dtype.
class Elements {
 public:
  explicit Elements(const at::Tensor& tensor) : dtype_(tensor.scalar_type()) {
    // Resolves lazily conjugated elements to their visible values.
    values_ = tensor.detach().cpu().resolve_conj().resolve_neg();
    values_ = values_.to(wide_type()).contiguous();
  }

  Element operator[](std::int64_t i) const {
    switch (values_.scalar_type()) {
      case at::kLong:
        return {static_cast<Real>(values_.const_data_ptr<std::int64_t>()[i])};
      case at::kUInt64:
        return {static_cast<Real>(values_.const_data_ptr<std::uint64_t>()[i])};
      case at::kComplexDouble: {
        const auto value = values_.const_data_ptr<c10::complex<double>>()[i];
        return {value.real(), value.imag()};
      }
      default:
        return {values_.const_data_ptr<double>()[i]};
    }
  }

  std::string text(std::int64_t i) const {
    const Element element = (*this)[i];
    if (dtype_ == at::kBool) return element.real == 0 ? "false" : "true";
    if (c10::isIntegralType(dtype_, false)) return fmt::format("{:.0f}", element.real);
    const bool as_double = dtype_ == at::kDouble || dtype_ == at::kComplexDouble;
    const std::string real = text_of_number(element.real, as_double);
    if (!c10::isComplexType(dtype_)) return real;
    const bool negative = std::signbit(element.imaginary);
    return real + (negative ? "-" : "+") + text_of_number(std::abs(element.imaginary), as_double) +
           "i";
  }

 private:
  // The widest type of its kind represents every value of the dtype exactly.
  at::ScalarType wide_type() const {
    if (dtype_ == at::kUInt64) return at::kUInt64;
    if (c10::isIntegralType(dtype_, /*includeBool=*/true)) return at::kLong;
    return c10::isComplexType(dtype_) ? at::kComplexDouble : at::kDouble;
  }

  at::ScalarType dtype_;
  at::Tensor values_;
};

bool is_right(const Element& actual, const Element& expected, const ElementTolerance& tolerance) {
  if (actual == expected) return true;
  if (tolerance.equal_nan && actual.is_nan() && expected.is_nan()) return true;
  if (tolerance.rtol == 0 && tolerance.atol == 0) return false;
  const Real error = distance(actual, expected);
  return std::isfinite(error) && error <= tolerance.atol + tolerance.rtol * size_of(expected);
}

TensorIndex index_of(std::int64_t flat, at::IntArrayRef shape) {
  TensorIndex index(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0; flat /= shape[dim]) {
    index[dim] = flat % shape[dim];
  }
  return index;
}

void take_larger(LargestError& largest, Real error, const TensorIndex& index) {
  if (std::isnan(largest.value) || error <= largest.value) return;
  largest = {error, index};
}

}  // namespace

std::optional<TensorDifference> difference_of(const at::Tensor& actual, const at::Tensor& expected,
                                              const ElementTolerance& tolerance) {
  const Elements ours(actual);
  const Elements theirs(expected);
  TensorDifference found{.elements = actual.numel()};
  for (std::int64_t i = 0; i < found.elements; ++i) {
    if (is_right(ours[i], theirs[i], tolerance)) continue;
    const TensorIndex index = index_of(i, actual.sizes());
    if (++found.wrong == 1) {
      found.first = index;
      found.actual = ours.text(i);
      found.expected = theirs.text(i);
    }
    const Real error = distance(ours[i], theirs[i]);
    take_larger(found.absolute, error, index);
    take_larger(found.relative, error / size_of(theirs[i]), index);
  }
  if (found.wrong == 0) return std::nullopt;
  return found;
}

std::string text_of(const TensorIndex& index) {
  return fmt::format("[{}]", fmt::join(index, ", "));
}

}  // namespace distrun::internal
