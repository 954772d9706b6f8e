// After a time-out the ranks of a group report by the group's store, so that the error can name
// those that did not come.
//
//     const RollCall all(state);
//     all.report("all_reduce");                      // Also by ranks that lost a connection.
//     all.missing();                                 // "rank 2 did not come"
//
// A rank that times out closes its connections, so the others that wait fail soon after it, and
// report, too.  A rank that does not report within kPatience is missing.
//
// Blocks: kPatience at most, even if the store does not answer.  Throws nothing.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "backends/group/group_state.h"

namespace distrun::internal {

inline constexpr std::chrono::milliseconds kPatience{1000};

class RollCall {
 public:
  // `state` is of a group that this rank is a member of.
  explicit RollCall(const GroupState& state);

  // This rank waited in `function`.
  void report(const std::string& function) const;

  // Reports, and names the missing ranks, or the calls that ranks wait in; empty if the store does
  // not answer.
  std::string missing(const std::string& function) const;

 private:
  struct Answers;

  c10::intrusive_ptr<c10d::Store> store_;  // None: the group has been destroyed.
  std::vector<int> ranks_;
  int rank_ = 0;  // The group's.
};

// `calls[i]` is the call that `ranks[i]` waits in; empty: it has not reported.  Pure.
std::string text_of_roll_call(const std::vector<std::string>& calls, const std::vector<int>& ranks);

}  // namespace distrun::internal
