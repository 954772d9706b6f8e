#include "parallel/checkpoint/box.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

namespace distrun::internal {

namespace {

std::int64_t product(const std::vector<std::int64_t>& sizes, std::size_t from = 0) {
  return std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(from), sizes.end(),
                         std::int64_t{1}, std::multiplies<>());
}

// The elements [first, first + count) of the part whose first indices are in `outer`.
void add_boxes(const std::vector<std::int64_t>& sizes, std::vector<std::int64_t>& outer,
               std::int64_t first, std::int64_t count, std::vector<Box>& boxes) {
  if (count == 0) return;
  const std::size_t dim = outer.size();
  Box box{outer, std::vector<std::int64_t>(dim, 1)};
  if (dim == sizes.size()) {
    boxes.push_back(std::move(box));
    return;
  }
  const std::int64_t row = product(sizes, dim + 1);
  const auto add_part_of_row = [&](std::int64_t begin, std::int64_t elements) {
    outer.push_back(begin / row);
    add_boxes(sizes, outer, begin % row, elements, boxes);
    outer.pop_back();
  };
  // The rest of a row, whole rows, and the beginning of one.
  const std::int64_t head = std::min(count, (row - first % row) % row);
  if (head > 0) add_part_of_row(first, head);
  const std::int64_t begin = first + head, rows = (count - head) / row;
  if (rows > 0) {
    box.offsets.resize(sizes.size(), 0);
    box.offsets[dim] = begin / row;
    box.sizes.insert(box.sizes.end(), sizes.begin() + static_cast<std::ptrdiff_t>(dim),
                     sizes.end());
    box.sizes[dim] = rows;
    boxes.push_back(std::move(box));
  }
  const std::int64_t tail = count - head - rows * row;
  if (tail > 0) add_part_of_row(begin + rows * row, tail);
}

}  // namespace

std::int64_t Box::numel() const { return product(sizes); }

Box whole_box(const std::vector<std::int64_t>& sizes) {
  return {std::vector<std::int64_t>(sizes.size(), 0), sizes};
}

std::vector<Box> boxes_of_range(const std::vector<std::int64_t>& sizes, std::int64_t first,
                                std::int64_t count) {
  std::vector<Box> boxes;
  std::vector<std::int64_t> outer;
  add_boxes(sizes, outer, first, count, boxes);
  return boxes;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.sizes.size(); ++d) {
    const std::int64_t begin = std::max(a.offsets[d], b.offsets[d]);
    const std::int64_t end = std::min(a.offsets[d] + a.sizes[d], b.offsets[d] + b.sizes[d]);
    if (begin >= end) return std::nullopt;
    common.offsets[d] = begin;
    common.sizes[d] = end - begin;
  }
  return common;
}

}  // namespace distrun::internal
