#include "backends/shm/host/reduction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace distrun::shm {

namespace {

template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

// An average divides by it. Small integers cannot hold the number of ranks.
template <class T>
struct Divisor {
  using Whole = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  using Type = std::conditional_t<std::is_integral_v<T>, Whole, T>;
};
template <class T>
struct Divisor<std::complex<T>> {
  using Type = T;
};
template <class T>
using DivisorOf = typename Divisor<T>::Type;

// In memory; std::complex<c10::Half> is not specified.
struct ComplexHalf {
  c10::Half real, imag;
};

// The type in which a type's values are combined.
template <class T>
struct Combined {
  using Type = T;
};
template <>
struct Combined<c10::Half> {
  using Type = float;
};
template <>
struct Combined<c10::BFloat16> {
  using Type = float;
};
template <>
struct Combined<ComplexHalf> {
  using Type = std::complex<float>;
};

template <class T>
typename Combined<T>::Type load(const T& value) {
  if constexpr (std::is_same_v<T, ComplexHalf>) {
    return {value.real, value.imag};
  } else {
    return value;
  }
}

template <class T>
T store(const typename Combined<T>::Type& value) {
  if constexpr (std::is_same_v<T, ComplexHalf>) {
    return {value.real(), value.imag()};
  } else {
    return static_cast<T>(value);
  }
}

// Wraps around, as LibTorch's integers do; signed overflow is undefined in C++.
template <class T, class Act>
T wrapping(T a, T b, const Act& act) {
  if constexpr (std::is_integral_v<T>) {
    // Types below int would be promoted to int, whose products overflow.
    using Wide =
        std::conditional_t<sizeof(T) < sizeof(unsigned), unsigned, std::make_unsigned_t<T>>;
    return static_cast<T>(act(static_cast<Wide>(a), static_cast<Wide>(b)));
  } else {
    return act(a, b);
  }
}

struct Sum {
  template <class T>
  static T of(T a, T b) {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct Product {
  template <class T>
  static T of(T a, T b) {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
// As at::minimum and at::maximum, NaN wins.
struct Min {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      return b < a || std::isnan(b) ? b : a;
    } else {
      return std::min(a, b);
    }
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      return a < b || std::isnan(b) ? b : a;
    } else {
      return std::max(a, b);
    }
  }
};
struct BitwiseAnd {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct BitwiseOr {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct BitwiseXor {
  template <class T>
  static T of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

struct Sources {
  const std::byte* const* begin;
  int count;

  template <class T>
  const T* at(int index) const {
    return reinterpret_cast<const T*>(begin[index]);
  }
};

// Fits the first-level cache twice.
constexpr std::size_t kBlockBytes = 8192;

template <class T, class Operation>
void combine(const Sources& sources, std::size_t count, DivisorOf<T> divisor, T* result) {
  if (sources.count == 2) {
    const T* a = sources.at<T>(0);
    const T* b = sources.at<T>(1);
    if (divisor == DivisorOf<T>(1)) {
      for (std::size_t i = 0; i < count; ++i) result[i] = Operation::of(a[i], b[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        result[i] = static_cast<T>(Operation::of(a[i], b[i]) / divisor);
      }
    }
    return;
  }
  constexpr std::size_t kBlock = kBlockBytes / sizeof(T);
  std::array<T, kBlock> sum;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    std::copy_n(sources.at<T>(0) + begin, size, sum.data());
    for (int source = 1; source < sources.count; ++source) {
      const T* values = sources.at<T>(source) + begin;
      for (std::size_t i = 0; i < size; ++i) sum[i] = Operation::of(sum[i], values[i]);
    }
    if (divisor != DivisorOf<T>(1)) {
      for (std::size_t i = 0; i < size; ++i) sum[i] = static_cast<T>(sum[i] / divisor);
    }
    std::copy_n(sum.data(), size, result + begin);
  }
}

// For types whose values are combined in another type.
template <class T, class Operation, class Wide>
void combine_wide(const Sources& sources, std::size_t count, DivisorOf<Wide> divisor, T* result) {
  constexpr std::size_t kBlock = kBlockBytes / sizeof(Wide);
  std::array<Wide, kBlock> sum;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const T* first = sources.at<T>(0) + begin;
    for (std::size_t i = 0; i < size; ++i) sum[i] = load(first[i]);
    for (int source = 1; source < sources.count; ++source) {
      const T* values = sources.at<T>(source) + begin;
      for (std::size_t i = 0; i < size; ++i) sum[i] = Operation::of(sum[i], load(values[i]));
    }
    for (std::size_t i = 0; i < size; ++i) result[begin + i] = store<T>(sum[i] / divisor);
  }
}

template <class T, class Operation>
void run(const Sources& sources, std::size_t count, bool is_average, std::byte* result) {
  using Wide = typename Combined<T>::Type;
  const auto divisor = static_cast<DivisorOf<Wide>>(is_average ? sources.count : 1);
  if constexpr (std::is_same_v<T, Wide>) {
    combine<T, Operation>(sources, count, divisor, reinterpret_cast<T*>(result));
  } else {
    combine_wide<T, Operation, Wide>(sources, count, divisor, reinterpret_cast<T*>(result));
  }
}

// Nothing if the operation is not defined for the type.
template <class T, class Operation, bool kIsDefined>
void run_if(const Sources& sources, std::size_t count, std::byte* result) {
  if constexpr (kIsDefined) run<T, Operation>(sources, count, false, result);
}

template <class T>
void run(Reduction reduction, const Sources& sources, std::size_t count, std::byte* result) {
  constexpr bool kIsReal = !kIsComplex<typename Combined<T>::Type>;
  constexpr bool kHasBits = std::is_integral_v<T>;
  switch (reduction) {
    case Reduction::kSum:
      return run<T, Sum>(sources, count, false, result);
    case Reduction::kAverage:
      return run<T, Sum>(sources, count, true, result);
    case Reduction::kProduct:
      return run_if<T, Product, kIsReal>(sources, count, result);
    case Reduction::kMin:
      return run_if<T, Min, kIsReal>(sources, count, result);
    case Reduction::kMax:
      return run_if<T, Max, kIsReal>(sources, count, result);
    case Reduction::kBitwiseAnd:
      return run_if<T, BitwiseAnd, kHasBits>(sources, count, result);
    case Reduction::kBitwiseOr:
      return run_if<T, BitwiseOr, kHasBits>(sources, count, result);
    case Reduction::kBitwiseXor:
      return run_if<T, BitwiseXor, kHasBits>(sources, count, result);
  }
}

// Bytes that are 0 or 1, and stay so.
Reduction of_bools(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
    case Reduction::kMax:
      return Reduction::kBitwiseOr;
    case Reduction::kProduct:
    case Reduction::kMin:
      return Reduction::kBitwiseAnd;
    default:
      return reduction;
  }
}

// Calls `act` with the type of the elements.
template <class Act>
void with_type(Element element, const Act& act) {
  using std::type_identity;
  switch (element) {
    case Element::kBool:
    case Element::kUint8:
      return act(type_identity<std::uint8_t>());
    case Element::kInt8:
      return act(type_identity<std::int8_t>());
    case Element::kInt16:
      return act(type_identity<std::int16_t>());
    case Element::kInt32:
      return act(type_identity<std::int32_t>());
    case Element::kInt64:
      return act(type_identity<std::int64_t>());
    case Element::kUint16:
      return act(type_identity<std::uint16_t>());
    case Element::kUint32:
      return act(type_identity<std::uint32_t>());
    case Element::kUint64:
      return act(type_identity<std::uint64_t>());
    case Element::kHalf:
      return act(type_identity<c10::Half>());
    case Element::kBFloat16:
      return act(type_identity<c10::BFloat16>());
    case Element::kFloat32:
      return act(type_identity<float>());
    case Element::kFloat64:
      return act(type_identity<double>());
    case Element::kComplexHalf:
      return act(type_identity<ComplexHalf>());
    case Element::kComplex64:
      return act(type_identity<std::complex<float>>());
    case Element::kComplex128:
      return act(type_identity<std::complex<double>>());
  }
}

bool is_floating(Element element) {
  return element == Element::kHalf || element == Element::kBFloat16 ||
         element == Element::kFloat32 || element == Element::kFloat64;
}

bool is_complex(Element element) {
  return element == Element::kComplexHalf || element == Element::kComplex64 ||
         element == Element::kComplex128;
}

}  // namespace

std::size_t bytes_of(Element element) {
  std::size_t bytes = 0;
  with_type(element, [&]<class T>(std::type_identity<T>) { bytes = sizeof(T); });
  return bytes;
}

bool is_defined(const Reducing& what) {
  const bool is_whole = !is_floating(what.element) && !is_complex(what.element);
  switch (what.reduction) {
    case Reduction::kSum:
      return true;
    case Reduction::kAverage:
      return what.element != Element::kBool;
    case Reduction::kProduct:
    case Reduction::kMin:
    case Reduction::kMax:
      return !is_complex(what.element);
    case Reduction::kBitwiseAnd:
    case Reduction::kBitwiseOr:
    case Reduction::kBitwiseXor:
      return is_whole;
  }
  return false;
}

void reduce(const Reducing& what, const std::byte* const* sources, int source_count,
            std::size_t count, std::byte* result) {
  const Sources all{sources, source_count};
  const bool is_bool = what.element == Element::kBool;
  const Reduction how = is_bool ? of_bools(what.reduction) : what.reduction;
  with_type(what.element, [&]<class T>(std::type_identity<T>) { run<T>(how, all, count, result); });
}

void divide(Element element, int divisor, std::size_t count, std::byte* values) {
  with_type(element, [&]<class T>(std::type_identity<T>) {
    using Wide = typename Combined<T>::Type;
    const auto by = static_cast<DivisorOf<Wide>>(divisor);
    T* each = reinterpret_cast<T*>(values);
    for (std::size_t i = 0; i < count; ++i) {
      each[i] = store<T>(static_cast<Wide>(load(each[i]) / by));
    }
  });
}

}  // namespace distrun::shm
