// Boxes are parts of a tensor: what one rank has of it, and what one entry of a file contains.
//
//     boxes_of_range({4, 3}, /*first=*/2, /*count=*/6);
//     // The elements 2 to 7 of a flattened tensor: {0, 2} [1, 1], {1, 0} [1, 3] and {2, 0} [1, 2].
//
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace distrun::internal {

// The elements with offsets[d] <= index[d] < offsets[d] + sizes[d]. A scalar has no dimensions.
struct Box {
  std::vector<std::int64_t> offsets, sizes;

  std::int64_t numel() const;

  friend bool operator==(const Box&, const Box&) = default;
  friend bool operator<(const Box& a, const Box& b) {
    return std::tie(a.offsets, a.sizes) < std::tie(b.offsets, b.sizes);
  }
};

// A tensor of these sizes.
Box whole_box(const std::vector<std::int64_t>& sizes);

// The boxes, in order, that contain the elements [first, first + count) of a flattened tensor. Each
// is contiguous in the tensor. At most 2 * dimensions - 1 boxes; none if count is 0. Requires that
// the tensor has these elements.
std::vector<Box> boxes_of_range(const std::vector<std::int64_t>& sizes, std::int64_t first,
                                std::int64_t count);

// Empty if they have no element in common. Requires the same number of dimensions.
std::optional<Box> intersection(const Box& a, const Box& b);

}  // namespace distrun::internal
