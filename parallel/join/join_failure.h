// Reports a failure in a join to the other ranks, through the group's store and by ending the
// group.  For join.cc.
#pragma once

#include <optional>
#include <string>

#include "distrun/group.h"

namespace distrun::internal {

struct JoinFailure {
  bool is_of_a_peer;  // This rank only noticed a lost peer.
  int rank;           // Global.
  std::string text;
};

// Publishes `own` and ends the group on this rank, so that the waits of the other ranks fail.
// Returns the failure that another rank published first, or nothing.
std::optional<JoinFailure> tell_join_failure(const Group& group, const JoinFailure& own);

}  // namespace distrun::internal
