// What a rank that fails in a join tells the others: by the group's store, and by ending the group.
// For join.cc.
#pragma once

#include <optional>
#include <string>

#include "distrun/group.h"

namespace distrun::internal {

struct JoinFailure {
  bool is_of_a_peer;  // It has only noticed that another rank is gone.
  int rank;           // The global one.
  std::string text;
};

// Ends the group on this rank, so that the others fail in what they wait for.  Returns what another
// rank has told before; nothing where this one is the first, or the store or the group is gone.
std::optional<JoinFailure> tell_join_failure(const Group& group, const JoinFailure& own);

}  // namespace distrun::internal
