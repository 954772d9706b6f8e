#include "common/text/rank_list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace distrun {

std::string list_of_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = ++last) {
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    for (std::size_t i = first; i <= last && last - first < 2; ++i) {
      parts.push_back(std::to_string(ranks[i]));
    }
    if (last - first >= 2) parts.push_back(fmt::format("{}-{}", ranks[first], ranks[last]));
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(parts, ", "));
}

}  // namespace distrun
