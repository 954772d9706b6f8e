#include "backends/group/group_ends.h"

#include <algorithm>
#include <utility>

namespace distrun::internal {

std::vector<std::shared_ptr<GroupState>> groups_of(const World& world) {
  std::vector<std::shared_ptr<GroupState>> groups = {world.group};
  for (const auto& each : world.groups) {
    if (auto group = each.lock()) groups.push_back(std::move(group));
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

std::exception_ptr shut_down(const GroupState& group) {
  try {
    if (group.process_group) group.process_group->shutdown();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

void abort_group(GroupState& group) {
  if (!group.process_group) return;
  group.is_aborted = true;
  group.process_group->abort();
}

}  // namespace distrun::internal
