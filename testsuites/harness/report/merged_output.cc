#include "testsuites/harness/report/merged_output.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

// Equal lines have equal numbers.
class RankLines {
 public:
  RankLines(int rank, std::vector<std::size_t> lines) : rank_(rank), lines_(std::move(lines)) {
    for (const std::size_t line : lines_) ++left_[line];
  }

  int rank() const { return rank_; }
  bool has_ended() const { return at_ == lines_.size(); }
  std::size_t next() const { return lines_[at_]; }
  bool next_is(std::size_t line) const { return !has_ended() && next() == line; }
  bool has_later(std::size_t line) const {
    const auto found = left_.find(line);
    return found != left_.end() && found->second > 0 && !next_is(line);
  }
  void skip() { --left_[lines_[at_++]]; }

 private:
  int rank_;
  std::vector<std::size_t> lines_;
  std::size_t at_ = 0;
  std::unordered_map<std::size_t, int> left_;  // How often each line is still to come.
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

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
  std::unordered_map<std::string_view, std::size_t> numbers;
  std::vector<std::string_view> texts;  // By number.
  std::vector<std::pair<int, std::vector<std::size_t>>> numbered;
  for (const auto& [rank, output] : outputs) {
    auto& lines = numbered.emplace_back(rank, std::vector<std::size_t>()).second;
    for (const std::string_view line : lines_of(output)) {
      const auto [found, is_new] = numbers.emplace(line, texts.size());
      if (is_new) texts.push_back(line);
      lines.push_back(found->second);
    }
  }
  std::vector<RankLines> ranks;
  ranks.reserve(numbered.size());
  for (auto& [rank, lines] : numbered) ranks.emplace_back(rank, std::move(lines));

  std::string text;
  while (const RankLines* const first = first_to_print(ranks)) {
    const std::size_t line = first->next();
    std::vector<int> printers;
    for (RankLines& rank : ranks) {
      if (!rank.next_is(line)) continue;
      printers.push_back(rank.rank());
      rank.skip();
    }
    std::sort(printers.begin(), printers.end());
    text += fmt::format("[{}] {}\n", list_of_ranks(printers), texts[line]);
  }
  return text;
}

}  // namespace distrun
