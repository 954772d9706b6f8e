#include "testsuites/harness/run/divergence.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

constexpr std::string_view kDefaultGroup = "default_pg";  // Its description, as in Python.
constexpr std::size_t kSizesShown = 3;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Whether ranks may pass other sizes, or no tensors.
bool may_differ(const Collective& one) {
  return contains(one.op, "scatter") || contains(one.op, "alltoall") ||
         contains(one.op, "all_to_all");
}

bool is_point_to_point(const Collective& one) {
  return contains(one.op, "send") || contains(one.op, "recv");
}

// True for collectives that ranks may run together.
bool match(const Collective& a, const Collective& b) {
  if (a.op != b.op) return false;
  return may_differ(a) || (a.dtype == b.dtype && a.sizes == b.sizes);
}

// "allreduce of Float [8] [2]", "barrier".
std::string text_of(const Collective& one) {
  const bool may_differ =
      contains(one.op, "scatter") || contains(one.op, "alltoall") || contains(one.op, "all_to_all");
  if (may_differ || one.sizes.empty()) return one.op;
  const std::size_t shown = std::min(one.sizes.size(), kSizesShown);
  std::string text = fmt::format("{} of {} {}", one.op, one.dtype,
                                 fmt::join(std::span(one.sizes).first(shown), " "));
  if (shown < one.sizes.size()) text += fmt::format(" and {} more", one.sizes.size() - shown);
  return text;
}

// One rank's collectives in one group, from the first on.
class Walk {
 public:
  explicit Walk(int rank) : rank_(rank) {}

  void add(const CollectiveStretch& stretch) { stretches_.push_back(&stretch); }

  int rank() const { return rank_; }
  bool is_over() const { return at_ == stretches_.size(); }
  bool is_empty() const { return stretches_.empty(); }
  const Collective& collective() const { return stretches_[at_]->collective; }
  // Number of equal ones from here on.
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

// Ranks that run the same collective.
struct Part {
  const Collective* collective;
  std::vector<int> ranks;
};

std::string place_of(const ComparedGroup& group, int number) {
  if (group.description == kDefaultGroup) {
    return fmt::format("collective {} of the default group", number);
  }
  return fmt::format("collective {} of group {}", number, group.description);
}

// The smallest part first. If two are the smallest, no rank is the odd one.
Divergence different(const ComparedGroup& group, int number, std::vector<Part> parts) {
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.ranks.size() < b.ranks.size(); });
  std::vector<int> odd = parts[0].ranks;
  if (parts[0].ranks.size() == parts[1].ranks.size()) {
    for (std::size_t i = 1; i < parts.size(); ++i) {
      odd.insert(odd.end(), parts[i].ranks.begin(), parts[i].ranks.end());
    }
    std::sort(odd.begin(), odd.end());
  }
  std::string text;
  for (const Part& part : parts) {
    text += fmt::format("{}{} ran {}", text.empty() ? "" : ", ", list_of_ranks(part.ranks),
                        text_of(*part.collective));
    if (&part == &parts[0]) text += " as " + place_of(group, number);
  }
  return {Divergence::Kind::kDifferent, std::move(odd), std::move(text)};
}

// Empty if no rank waits and the absent ranks never used the group: they may not be members.
std::optional<Divergence> missing(const ComparedGroup& group, int number,
                                  const std::vector<int>& absent) {
  std::vector<int> present, waiting;
  bool are_members = false;
  std::string what;
  for (const Walk& walk : group.walks) {
    if (walk.is_over()) {
      are_members = are_members || !walk.is_empty();
      continue;
    }
    present.push_back(walk.rank());
    if (walk.waits()) waiting.push_back(walk.rank());
    what = text_of(walk.collective());
  }
  const std::string text =
      fmt::format("{} had not {} {}, {}, ", list_of_ranks(absent),
                  waiting.empty() ? "run" : "entered", place_of(group, number), what);
  if (!waiting.empty()) {
    return Divergence{Divergence::Kind::kAwaited, absent,
                      fmt::format("{}in which {} waited", text, list_of_ranks(waiting))};
  }
  if (!are_members) return std::nullopt;
  return Divergence{Divergence::Kind::kMissing, absent,
                    fmt::format("{}which {} ran", text, list_of_ranks(present))};
}

std::optional<Divergence> divergence_in(ComparedGroup& group) {
  for (int number = 1;;) {
    std::vector<Part> parts;
    std::vector<int> absent;
    int left = 0;
    for (const Walk& walk : group.walks) {
      if (walk.is_over()) {
        absent.push_back(walk.rank());
        continue;
      }
      auto part = std::find_if(parts.begin(), parts.end(), [&](const Part& one) {
        return match(*one.collective, walk.collective());
      });
      if (part == parts.end()) part = parts.insert(part, {&walk.collective(), {}});
      part->ranks.push_back(walk.rank());
      left = left == 0 ? walk.left() : std::min(left, walk.left());
    }
    if (parts.empty()) return std::nullopt;
    if (parts.size() > 1) return different(group, number, std::move(parts));
    if (!absent.empty()) return missing(group, number, absent);
    for (Walk& walk : group.walks) walk.pass(left);
    number += left;
  }
}

Walk& walk_of(ComparedGroup& group, int rank) {
  // In ascending order of ranks, except for those without collectives.
  if (!group.walks.empty() && group.walks.back().rank() == rank) return group.walks.back();
  return group.walks.emplace_back(rank);
}

// By name. Ranks without collectives take part in the default group.
std::map<std::string, ComparedGroup> groups_of(
    const std::vector<const CollectiveRecord*>& records) {
  std::map<std::string, ComparedGroup> groups;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    if (records[rank] == nullptr) continue;
    for (const CollectiveStretch& stretch : records[rank]->stretches) {
      // Backends without a group have no name, so they cannot be distinguished.
      if (is_point_to_point(stretch.collective) || stretch.group.empty()) continue;
      ComparedGroup& group = groups[stretch.group];
      group.description = stretch.description;
      walk_of(group, static_cast<int>(rank)).add(stretch);
    }
  }
  for (auto& [name, group] : groups) {
    if (group.description != kDefaultGroup) continue;
    std::set<int> known;
    for (const Walk& walk : group.walks) known.insert(walk.rank());
    for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
      if (records[static_cast<std::size_t>(rank)] == nullptr || known.contains(rank)) continue;
      group.walks.emplace_back(rank);
    }
    std::sort(group.walks.begin(), group.walks.end(),
              [](const Walk& a, const Walk& b) { return a.rank() < b.rank(); });
  }
  return groups;
}

}  // namespace

std::optional<Divergence> divergence_of(const std::vector<const CollectiveRecord*>& records) {
  // Without its start, a record cannot be compared.
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
