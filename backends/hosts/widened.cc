#include "backends/hosts/widened.h"

#include <ATen/ops/from_blob.h>

namespace distrun::hosts {

using shm::Element;
using shm::Reduction;

bool Widened::is_useful(const shm::Reducing& how) {
  if (how.reduction == Reduction::kMin || how.reduction == Reduction::kMax) return false;
  return how.element == Element::kHalf || how.element == Element::kBFloat16 ||
         how.element == Element::kComplexHalf;
}

Widened::Widened(std::byte* data, std::size_t count, Element element)
    : element_(element == Element::kComplexHalf ? Element::kComplex64 : Element::kFloat32) {
  // A complex number is two real ones.
  const std::size_t parts = element == Element::kComplexHalf ? 2 : 1;
  narrow_ = at::from_blob(data, {static_cast<std::int64_t>(count * parts)},
                          element == Element::kBFloat16 ? at::kBFloat16 : at::kHalf);
  wide_ = narrow_.to(at::kFloat);
}

}  // namespace distrun::hosts
