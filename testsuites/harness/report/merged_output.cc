#include "testsuites/harness/report/merged_output.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

class RankLines {
 public:
  RankLines(int rank, std::string_view text) : rank_(rank) {
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      lines_.push_back(text.substr(0, end));
      ++left_[lines_.back()];
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  int rank() const { return rank_; }
  bool has_ended() const { return at_ == lines_.size(); }
  std::string_view next() const { return lines_[at_]; }
  bool next_is(std::string_view line) const { return !has_ended() && next() == line; }
  bool has_later(std::string_view line) const {
    const auto found = left_.find(line);
    return found != left_.end() && found->second > 0 && !next_is(line);
  }
  void skip() { --left_[lines_[at_++]]; }

 private:
  int rank_;
  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  std::unordered_map<std::string_view, int> left_;  // How often each line is still to come.
};

// The first rank whose next line no other rank prints only later; else the first one at all.
const RankLines* first_to_print(const std::vector<RankLines>& ranks) {
  const RankLines* first = nullptr;
  for (const RankLines& rank : ranks) {
    if (rank.has_ended()) continue;
    if (first == nullptr) first = &rank;
    const bool waits = std::any_of(ranks.begin(), ranks.end(), [&](const RankLines& other) {
      return other.has_later(rank.next());
    });
    if (!waits) return &rank;
  }
  return first;
}

}  // namespace

std::string merged_output(const std::vector<std::pair<int, std::string>>& outputs) {
  std::vector<RankLines> ranks;
  ranks.reserve(outputs.size());
  for (const auto& [rank, output] : outputs) ranks.emplace_back(rank, output);
  std::string text;
  while (const RankLines* const first = first_to_print(ranks)) {
    const std::string_view line = first->next();
    std::vector<int> printers;
    for (RankLines& rank : ranks) {
      if (!rank.next_is(line)) continue;
      printers.push_back(rank.rank());
      rank.skip();
    }
    std::sort(printers.begin(), printers.end());
    text += fmt::format("[{}] {}\n", list_of_ranks(printers), line);
  }
  return text;
}

}  // namespace distrun
