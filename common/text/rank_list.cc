#include "common/text/rank_list.h"

namespace distrun {

// Without fmt, because the sources of distrun.shm, which Python users compile, include this file.
std::string list_of_ranks(const std::vector<int>& ranks) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = ++last) {
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    for (std::size_t i = first; i <= last && last - first < 2; ++i) add(std::to_string(ranks[i]));
    if (last - first >= 2) add(std::to_string(ranks[first]) + "-" + std::to_string(ranks[last]));
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

}  // namespace distrun
