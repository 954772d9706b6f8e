#include "common/text/near_miss.h"

#include <algorithm>

#include "common/text/edit_distance.h"

namespace distrun {

std::optional<std::string> near_miss(std::string_view word, const std::vector<std::string>& words) {
  const auto distance = [&](std::string_view known) {
    const bool begins = word.size() >= 3 && known.starts_with(word);
    return begins ? 0 : edit_distance(word, known);
  };
  const auto nearest = std::min_element(
      words.begin(), words.end(),
      [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
  if (nearest == words.end()) return std::nullopt;
  const std::size_t distance_max = word.size() < 4 ? 1 : std::max<std::size_t>(2, word.size() / 4);
  if (distance(*nearest) > distance_max) return std::nullopt;
  return *nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& words,
                         std::string_view prefix) {
  const auto meant = near_miss(word, words);
  return meant ? ": did you mean " + std::string(prefix) + *meant + "?" : "";
}

}  // namespace distrun
