// Ends groups: for code that destroys, aborts or replaces them.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "backends/group/group_state.h"

namespace distrun::internal {

// Newest first, the default group last: all ranks must end groups in the same order, as some
// backends require.
std::vector<std::shared_ptr<GroupState>> groups_of(const World& world);

// Waits for the operations in progress on this rank. Returns the backend's exception, so that the
// caller can free everything first.
std::exception_ptr shut_down(const GroupState& group);

// Does nothing if this rank is not in the group, or the group is destroyed.
void abort_group(GroupState& group);

}  // namespace distrun::internal
