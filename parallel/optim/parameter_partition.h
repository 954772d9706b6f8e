// Chooses the rank that updates each parameter. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace distrun::internal {

// Assigns the parameters of one group after another. In a group, the largest parameter comes first,
// and each goes to the rank with the fewest elements so far, as in Python. So a group that is added
// later does not change the ranks of earlier parameters.
class ParameterPartition {
 public:
  explicit ParameterPartition(int ranks) : elements_(static_cast<std::size_t>(ranks), 0) {}

  // The rank of each parameter. `sizes` are numbers of elements.
  std::vector<int> assign(const std::vector<std::int64_t>& sizes);

 private:
  std::vector<std::int64_t> elements_;  // Of each rank.
};

}  // namespace distrun::internal
