// Half-precision numbers as floats, for reductions that round once, at the end.
//
//     if (Widened::is_useful(how)) {
//       Widened floats(data, count, how.element);
//       … reduce floats.data() with {floats.element(), how.reduction} …
//       floats.round();
//     }
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>

#include "backends/shm/host/reduction.h"

namespace distrun::hosts {

class Widened {
 public:
  // Whether the elements are half-precision numbers, and the reduction rounds.
  static bool is_useful(const shm::Reducing& how);

  // Refers to `data`, and copies them.
  Widened(std::byte* data, std::size_t count, shm::Element element);

  std::byte* data() const { return static_cast<std::byte*>(wide_.data_ptr()); }
  shm::Element element() const { return element_; }
  // Writes what data() has become back to the numbers.
  void round() const { narrow_.copy_(wide_); }

 private:
  at::Tensor narrow_, wide_;
  shm::Element element_;
};

}  // namespace distrun::hosts
