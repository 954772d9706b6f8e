// Reductions of the values of several ranks, element by element.
//
//     const std::byte* sources[] = {of_rank_0, of_rank_1};
//     reduce({Element::kFloat32, Reduction::kSum}, sources, 2, numel, result);
//
// The values are combined in the order of the sources, as ((a + b) + c) + d: every rank that
// reduces the same sources gets the same bits. Half, BFloat16 are combined as floats and rounded
// once, at the end. An average is the sum divided by the number of sources; integers are divided
// towards zero, as in NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace distrun::shm {

enum class Element : std::uint8_t {
  kBool,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint16,
  kUint32,
  kUint64,
  kHalf,
  kBFloat16,
  kFloat32,
  kFloat64,
  kComplexHalf,
  kComplex64,
  kComplex128,
};

enum class Reduction : std::uint8_t {
  kSum,
  kAverage,
  kProduct,
  kMin,
  kMax,
  kBitwiseAnd,
  kBitwiseOr,
  kBitwiseXor,
};

struct Reducing {
  Element element = Element::kFloat32;
  Reduction reduction = Reduction::kSum;
};

std::size_t bytes_of(Element element);

// Whether the reduction is defined for the elements: complex numbers have only sums and averages,
// as in Python; floating ones have no bits; bool has no average.
bool is_defined(const Reducing& what);

// Writes `count` elements to `result`, which may be one of the sources. Requires a defined
// reduction, at least one source, and pointers that are aligned for the elements.
void reduce(const Reducing& what, const std::byte* const* sources, int source_count,
            std::size_t count, std::byte* result);

// Divides as an average does. `element` is not kBool.
void divide(Element element, int divisor, std::size_t count, std::byte* values);

}  // namespace distrun::shm
