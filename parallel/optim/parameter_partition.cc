#include "parallel/optim/parameter_partition.h"

#include <algorithm>
#include <numeric>

namespace distrun::internal {

std::vector<int> ParameterPartition::assign(const std::vector<std::int64_t>& sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<int> ranks(sizes.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(elements_.begin(), elements_.end());
    *least += sizes[i];
    ranks[i] = static_cast<int>(least - elements_.begin());
  }
  return ranks;
}

}  // namespace distrun::internal
