#include "evidence/report/rank_places.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/rank_list.h"
#include "evidence/report/readable_stack.h"

namespace distrun {

void RankPlaces::add(int rank, const std::vector<Frame>& frames, const std::string& awaited) {
  StackPlace place = place_of(frames);
  // Otherwise another thread waits for it.
  const bool is_awaited = place.waits == StackPlace::Waits::kForStore && !awaited.empty();
  const auto same = [&place](const Group& group) {
    return std::tie(group.place.waits, group.place.text, group.place.path) ==
           std::tie(place.waits, place.text, place.path);
  };
  auto group = std::find_if(groups_.begin(), groups_.end(), same);
  if (group == groups_.end())
    group = groups_.insert(group, {.place = std::move(place), .ranks = {}, .awaited = {}});
  group->ranks.push_back(rank);
  const auto known = std::find(group->awaited.begin(), group->awaited.end(), awaited);
  if (is_awaited && known == group->awaited.end()) group->awaited.push_back(awaited);
}

// Groups in the same function differ in their calls: show the innermost call that differs.
std::string RankPlaces::where(const Group& group) const {
  for (const Group& other : groups_) {
    if (&other == &group || other.place.text != group.place.text ||
        other.place.waits != group.place.waits) {
      continue;
    }
    const auto& own = group.place.path;
    const auto& others = other.place.path;
    for (std::size_t depth = 1; depth <= own.size(); ++depth) {
      const Frame& frame = own[own.size() - depth];
      if (depth <= others.size() && others[others.size() - depth] == frame) continue;
      return fmt::format("{}, called by {}", group.place.text, described(frame));
    }
  }
  return group.place.text;
}

std::string RankPlaces::line() const {
  std::vector<const Group*> order;
  for (const Group& group : groups_) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [](const Group* one, const Group* other) {
    return std::pair(one->place.waits, one->ranks.size()) <
           std::pair(other->place.waits, other->ranks.size());
  });
  constexpr std::size_t kShown = 4;
  std::vector<std::string> parts;
  for (const Group* group : order) {
    if (parts.size() == kShown) {
      parts.push_back(fmt::format("{} more groups", order.size() - kShown));
      break;
    }
    const char* waits = group->ranks.size() == 1 ? " waits" : " wait";
    std::string does;
    if (group->place.waits == StackPlace::Waits::kForRanks) does = waits;
    if (group->place.waits == StackPlace::Waits::kForStore) {
      const bool one = group->awaited.size() == 1;
      does = fmt::format("{} {}", waits, one ? group->awaited.front() : "for the store");
    }
    parts.push_back(fmt::format("{}{} in {}", list_of_ranks(group->ranks), does, where(*group)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace distrun
