// What a rank that fails in a join tells the others: by the group's store, and by ending the group.
// For join.cc.
#pragma once

#include <optional>
#include <string>

#include "backends/group.h"

namespace distrun::internal {

// Ends the group on this rank, so that the others fail in what they wait for.  Returns what another
// rank has told before: "rank 1 has failed: no such file".  Nothing where this one is the first,
// or the store is gone.
std::optional<std::string> tell_join_failure(const Group& group, const std::string& text);

}  // namespace distrun::internal
