// Reports a failure of one rank, as in a join or in a pipeline, to the other ranks: publishes it in
// the group's store, and ends the group.
#pragma once

#include <optional>
#include <string>

#include "distrun/group.h"

namespace distrun::internal {

struct GroupFailure {
  bool is_of_a_peer;  // This rank only noticed a lost peer.
  int rank;           // Global.
  std::string text;
};

// Ends the group on this rank, so that waits of other ranks fail. Returns the failure that another
// rank published first, if any.
std::optional<GroupFailure> report_group_failure(const Group& group, const GroupFailure& own);

// Reports the current exception, and throws it, or a c10::DistError with the text of the rank that
// failed first. `function` and `rank`, the global one, begin this text.
[[noreturn]] void rethrow_as_reported(const char* function, const Group& group, int rank);

}  // namespace distrun::internal
