#include "evidence/operations/collective_table.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "common/text/rank_list.h"

namespace distrun {

namespace {

// Collectives that some rank never enters are forgotten after this many.
constexpr std::size_t kPendingMax = 8192;
// What waits to be taken.
constexpr std::size_t kTakenMax = 65536;

void keep(std::vector<CollectiveOfRanks>& all, const CollectiveOfRanks& ranks) {
  if (all.size() < kTakenMax) all.push_back(ranks);
}

// Ranks by the call that they are in.
using Callers = std::map<std::string, std::vector<int>>;

std::string joined(const Callers& callers, const char* verb_of_one, const char* verb_of_many) {
  std::string text;
  for (const auto& [call, ranks] : callers) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", list_of_ranks(ranks),
                        ranks.size() > 1 ? verb_of_many : verb_of_one, call);
  }
  return text;
}

// In progress since a time before `since`.
auto any_in_progress(const CollectiveOfRanks& ranks, OperationTime since) {
  return std::find_if(ranks.by_rank.begin(), ranks.by_rank.end(), [since](const auto& each) {
    return each.second.is_in_progress() && each.second.began <= since;
  });
}

}  // namespace

std::string text_of(const Operation& operation) {
  std::string text = operation.op;
  if (operation.is_collective()) {
    text += fmt::format(", number {} of group {}", operation.sequence, operation.group);
  } else if (operation.peer >= 0) {
    text += fmt::format(" {} rank {} of group {}", operation.op == "send" ? "to" : "from",
                        operation.peer, operation.group);
  }
  if (!operation.dtype.empty()) {
    text += fmt::format(" ({} {})", operation.dtype, operation.sizes);
  }
  return text;
}

std::size_t CollectiveTable::ranks_expected(const Operation& operation) const {
  const auto size = static_cast<std::size_t>(std::max(operation.group_size, 1));
  return sees_all_ranks_ ? size : std::min(size, last_in_group_.at(operation.group).size());
}

void CollectiveTable::know_members(const std::string& group, std::set<int> ranks) {
  given_members_[group] = std::move(ranks);
}

bool CollectiveTable::is_ambiguous(int rank, const Operation& operation) {
  if (ambiguous_.contains(operation.group)) return true;
  if (operation.group_rank < 0) return false;
  const auto [place, is_new] = members_[operation.group].try_emplace(operation.group_rank, rank);
  if (is_new || place->second == rank) return false;
  ambiguous_.insert(operation.group);
  forget(operation.group);
  return true;
}

void CollectiveTable::forget(const std::string& group) {
  members_.erase(group);
  last_in_group_.erase(group);
  std::erase_if(pending_, [&](const auto& each) { return each.first.first == group; });
  for (auto* const taken_later : {&entered_, &ended_}) {
    std::erase_if(*taken_later, [&](const auto& all) { return all.any().group == group; });
  }
}

void CollectiveTable::add(int rank, const Operation& operation) {
  known_.insert(rank);
  if (!operation.is_collective() || is_ambiguous(rank, operation)) return;
  auto& last_here = last_in_group_[operation.group][rank];
  if (operation.sequence >= last_here.sequence) last_here = operation;

  const auto [place, is_new] = pending_.try_emplace({operation.group, operation.sequence});
  Pending& pending = place->second;
  if (is_new) pending.added = ++added_;
  pending.ranks.by_rank[rank] = operation;
  const auto& ranks = pending.ranks.by_rank;
  if (ranks.size() >= ranks_expected(operation)) {
    if (!std::exchange(pending.is_entered, true)) keep(entered_, pending.ranks);
    const bool has_ended = std::all_of(
        ranks.begin(), ranks.end(), [](const auto& each) { return !each.second.is_in_progress(); });
    if (has_ended) {
      keep(ended_, pending.ranks);
      pending_.erase(place);
    }
  }
  if (pending_.size() > kPendingMax) forget_old();
}

// The older half, so that this is rare.
void CollectiveTable::forget_old() {
  std::vector<std::uint64_t> all;
  all.reserve(pending_.size());
  for (const auto& [key, pending] : pending_) all.push_back(pending.added);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  std::erase_if(pending_, [middle](const auto& each) { return each.second.added < *middle; });
}

void CollectiveTable::lose_ends(int node) {
  for (auto& [key, pending] : pending_) {
    for (auto& [rank, operation] : pending.ranks.by_rank) {
      if (operation.node == node && !operation.ended) operation.tells_end = false;
    }
  }
}

const CollectiveOfRanks* CollectiveTable::first_in_progress(const std::string& group,
                                                            OperationTime since) const {
  for (auto place = pending_.lower_bound({group, 0});
       place != pending_.end() && place->first.first == group; ++place) {
    const CollectiveOfRanks& ranks = place->second.ranks;
    if (any_in_progress(ranks, since) != ranks.by_rank.end()) return &ranks;
  }
  return nullptr;
}

std::vector<int> CollectiveTable::absent_from(const std::string& group, int group_size) const {
  const auto given = given_members_.find(group);
  const auto& present = last_in_group_.at(group);
  // Without the members, only a group of all ranks is certain.
  const bool has_all = sees_all_ranks_ && group_size == static_cast<int>(known_.size());
  std::vector<int> absent;
  for (const int rank : known_) {
    const bool is_member = given != given_members_.end() ? given->second.contains(rank) : has_all;
    if (is_member && !present.contains(rank)) absent.push_back(rank);
  }
  return absent;
}

std::string CollectiveTable::missing_in_last_of(int rank, const Others& others) const {
  std::uint64_t number = 0;  // Of the latest one that ranks are missing in.
  std::string text;
  for (const auto& [group, ranks] : last_in_group_) {
    const auto its = ranks.find(rank);
    if (its == ranks.end() || its->second.number < number) continue;
    const Operation& last = its->second;
    const auto pending = pending_.find({group, last.sequence});
    if (pending == pending_.end() || pending->second.is_entered) continue;
    std::vector<int> missing = absent_from(group, last.group_size);
    for (const auto& [other, its_last] : ranks) {
      if (its_last.sequence < last.sequence) missing.push_back(other);
    }
    const bool most_entered = last.ended && 2 * static_cast<int>(missing.size()) < last.group_size;
    std::erase_if(missing, [&](int other) {
      const bool counts =
          others.finished.contains(other) || (most_entered && others.stopped.contains(other));
      return !counts;
    });
    if (missing.empty()) continue;
    std::sort(missing.begin(), missing.end());
    number = last.number;
    text = fmt::format("{} had not entered {}, which rank {} had entered", list_of_ranks(missing),
                       text_of(last), rank);
  }
  return text;
}

std::string CollectiveTable::line(const Unknown& unknown) const {
  std::string text;
  for (const auto& [group, ranks] : last_in_group_) {
    const CollectiveOfRanks* const all = first_in_progress(group, unknown.since);
    if (all == nullptr) continue;
    const Operation* const first = &any_in_progress(*all, unknown.since)->second;
    Callers behind, waiting, ahead;
    for (const auto& [rank, last] : ranks) {
      const auto here = all->by_rank.find(rank);
      if (here != all->by_rank.end() && here->second.is_in_progress()) {
        waiting[text_of(here->second)].push_back(rank);
      } else if (last.sequence < first->sequence) {
        behind[text_of(*first)].push_back(rank);
      } else if (last.sequence > first->sequence) {
        ahead[text_of(last)].push_back(rank);
      }
    }
    for (const int rank : absent_from(group, first->group_size)) {
      behind[text_of(*first)].push_back(rank);
    }
    auto& without = behind[text_of(*first)];
    std::erase_if(without, [&](int rank) { return unknown.ranks.contains(rank); });
    if (without.empty()) behind.clear();
    for (auto& [call, missing] : behind) {
      std::sort(missing.begin(), missing.end());
      text += fmt::format("{}{} {} not entered {}", text.empty() ? "" : "; ",
                          list_of_ranks(missing), missing.size() > 1 ? "have" : "has", call);
    }
    const bool is_named =
        !behind.empty() && waiting.size() == 1 && waiting.begin()->first == behind.begin()->first;
    if (is_named) {
      const auto& ranks_waiting = waiting.begin()->second;
      text += fmt::format("; {} {} in it", list_of_ranks(ranks_waiting),
                          ranks_waiting.size() > 1 ? "wait" : "waits");
    } else if (!waiting.empty()) {
      text += (text.empty() ? "" : "; ") + joined(waiting, "waits in", "wait in");
    }
    if (!ahead.empty()) text += "; " + joined(ahead, "is ahead, in", "are ahead, in");
  }
  return text;
}

}  // namespace distrun
