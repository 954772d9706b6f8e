#include "testsuites/harness/run/divergence.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

constexpr std::string_view kDefaultGroup = "default_pg";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_point_to_point(const Collective& one) {
  return contains(one.op, "send") || contains(one.op, "recv");
}

// "allreduce of Float [8] [2]", "barrier".  Ranks of one collective have the same text.
std::string text_of(const Collective& one) {
  const bool may_differ =
      contains(one.op, "scatter") || contains(one.op, "alltoall") || contains(one.op, "all_to_all");
  if (may_differ || one.sizes.empty()) return one.op;
  return fmt::format("{} of {} {}", one.op, one.dtype, fmt::join(one.sizes, " "));
}

// One rank's collectives in one group, from the first on.
class Walk {
 public:
  explicit Walk(int rank) : rank_(rank) {}

  void add(const CollectiveStretch& stretch) { stretches_.push_back(&stretch); }

  int rank() const { return rank_; }
  bool is_over() const { return at_ == stretches_.size(); }
  std::string text() const { return text_of(stretches_[at_]->collective); }
  // How many equal ones follow, this one included.
  int left() const { return stretches_[at_]->collective.count - passed_; }
  bool waits() const { return left() == 1 && !stretches_[at_]->has_ended; }

  void pass(int count) {
    passed_ += count;
    if (passed_ < stretches_[at_]->collective.count) return;
    passed_ = 0;
    ++at_;
  }

 private:
  int rank_;
  std::vector<const CollectiveStretch*> stretches_;
  std::size_t at_ = 0;
  int passed_ = 0;
};

struct ComparedGroup {
  std::string description;
  std::vector<Walk> walks;  // By rank.
};

using RanksByText = std::map<std::string, std::vector<int>>;

// The smaller part; of equal parts the one without the lowest rank.
const RanksByText::value_type& odd_one_of(const RanksByText& parts) {
  return *std::min_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return a.second.front() > b.second.front();
  });
}

std::string place_of(const ComparedGroup& group, int number) {
  const std::string place = fmt::format("collective {}", number);
  if (group.description.empty()) return place;
  return fmt::format("{} of group {}", place, group.description);
}

Divergence different(const ComparedGroup& group, int number, const RanksByText& parts) {
  const auto& [odd_text, odd_ranks] = odd_one_of(parts);
  std::string text =
      fmt::format("{} ran {} as {}", list_of_ranks(odd_ranks), odd_text, place_of(group, number));
  for (const auto& [other_text, ranks] : parts) {
    if (other_text != odd_text) {
      text += fmt::format(", {} ran {}", list_of_ranks(ranks), other_text);
    }
  }
  return {Divergence::Kind::kDifferent, odd_ranks, std::move(text)};
}

Divergence missing(const ComparedGroup& group, int number, const std::vector<int>& absent) {
  std::vector<int> present, waiting;
  std::string what;
  for (const Walk& walk : group.walks) {
    if (walk.is_over()) continue;
    present.push_back(walk.rank());
    if (walk.waits()) waiting.push_back(walk.rank());
    what = walk.text();
  }
  const std::string text = fmt::format(
      "{} {} not {} {}, {}, ", list_of_ranks(absent), absent.size() == 1 ? "has" : "have",
      waiting.empty() ? "run" : "entered", place_of(group, number), what);
  if (waiting.empty()) {
    return {Divergence::Kind::kMissing, absent,
            fmt::format("{}which {} ran", text, list_of_ranks(present))};
  }
  return {Divergence::Kind::kAwaited, absent,
          fmt::format("{}in which {} {}", text, list_of_ranks(waiting),
                      waiting.size() == 1 ? "waits" : "wait")};
}

std::optional<Divergence> divergence_in(ComparedGroup& group) {
  for (int number = 1;;) {
    RanksByText parts;
    std::vector<int> absent;
    int left = 0;
    for (const Walk& walk : group.walks) {
      if (walk.is_over()) {
        absent.push_back(walk.rank());
        continue;
      }
      parts[walk.text()].push_back(walk.rank());
      left = left == 0 ? walk.left() : std::min(left, walk.left());
    }
    if (parts.empty()) return std::nullopt;
    if (parts.size() > 1) return different(group, number, parts);
    if (!absent.empty()) return missing(group, number, absent);
    for (Walk& walk : group.walks) walk.pass(left);
    number += left;
  }
}

Walk& walk_of(ComparedGroup& group, int rank) {
  for (Walk& walk : group.walks) {
    if (walk.rank() == rank) return walk;
  }
  return group.walks.emplace_back(rank);
}

// In order of name.  Ranks without collectives take part in the default group.
std::map<std::string, ComparedGroup> groups_of(
    const std::vector<const CollectiveRecord*>& records) {
  std::map<std::string, ComparedGroup> groups;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank] == nullptr) continue;
    for (const CollectiveStretch& stretch : records[rank]->stretches) {
      if (is_point_to_point(stretch.collective)) continue;
      ComparedGroup& group = groups[stretch.group];
      group.description = stretch.description;
      walk_of(group, static_cast<int>(rank)).add(stretch);
    }
  }
  for (auto& [name, group] : groups) {
    if (group.description != kDefaultGroup) continue;
    for (std::size_t rank = 0; rank < records.size(); ++rank) {
      if (records[rank] != nullptr) walk_of(group, static_cast<int>(rank));
    }
    std::sort(group.walks.begin(), group.walks.end(),
              [](const Walk& a, const Walk& b) { return a.rank() < b.rank(); });
  }
  return groups;
}

}  // namespace

std::optional<Divergence> divergence_of(const std::vector<const CollectiveRecord*>& records) {
  // A record without its beginning cannot be compared.
  const auto is_cut = [](const CollectiveRecord* one) { return one != nullptr && !one->is_whole; };
  if (std::any_of(records.begin(), records.end(), is_cut)) return std::nullopt;
  constexpr auto kWeight = [](Divergence::Kind kind) {
    return kind == Divergence::Kind::kDifferent ? 2 : kind == Divergence::Kind::kAwaited ? 1 : 0;
  };
  std::optional<Divergence> worst;
  for (auto& [name, group] : groups_of(records)) {
    auto found = divergence_in(group);
    if (found && (!worst || kWeight(found->kind) > kWeight(worst->kind))) worst = std::move(found);
  }
  return worst;
}

}  // namespace distrun
