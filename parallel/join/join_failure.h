// Reports a failure in a join to the other ranks: publishes it in the group's store, and ends the
// group.
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

// Ends the group on this rank, so that waits of other ranks fail. Returns the failure that another
// rank published first, if any.
std::optional<JoinFailure> tell_join_failure(const Group& group, const JoinFailure& own);

}  // namespace distrun::internal
