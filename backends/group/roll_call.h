// After a timeout, ranks report through the group's store, so that the error can name missing
// ranks.
//
//     const RollCall all(state);
//     all.report("all_reduce");      // Ranks that lost a connection report too.
//     all.missing("all_reduce");     // "rank 2 did not come"
//
// A rank that times out closes its connections, so the other waiting ranks fail and report too.  A
// rank that does not report within kPatience is missing.
//
// Blocks: report() up to kPatience, and only if the store does not answer; the others for kPatience
// if a rank is missing, and at most twice that. Throws nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/group/group_state.h"

namespace distrun::internal {

inline constexpr std::chrono::milliseconds kPatience{1000};

class RollCall {
 public:
  // Requires that this rank is in the group.
  explicit RollCall(const GroupState& state);

  // Reports that this rank waited in `function`.
  void report(const std::string& function) const;

  // Reports, and names the missing ranks, or the calls in which ranks wait. Empty if the store does
  // not answer.
  std::string missing(const std::string& function) const;

  // Reports, and says whether group rank `peer` is missing, or in which call it waits.
  std::string missing_peer(const std::string& function, int peer) const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Answers;

  // The reports of group ranks `asked` at the deadline, each empty if missing. nullopt if the store
  // does not answer for another kPatience.
  std::optional<std::vector<std::string>> calls_of(std::vector<std::size_t> asked,
                                                   TimePoint deadline) const;

  c10::intrusive_ptr<c10d::Store> store_;  // Null: the group has been destroyed.
  std::vector<int> ranks_;
  int rank_ = 0;  // The group rank.
};

// `calls[i]` is the call in which `ranks[i]` waits; empty if it has not reported. Pure.
std::string text_of_roll_call(const std::vector<std::string>& calls, const std::vector<int>& ranks);

}  // namespace distrun::internal
