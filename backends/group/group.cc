#include "distrun/group.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "backends/group/group_state.h"
#include "common/text/rank_list.h"

namespace distrun {

namespace internal {

World*& world() {
  static World* world = nullptr;
  return world;
}

World& the_world() {
  TORCH_CHECK(world() != nullptr, "no process group: call init_process_group() first");
  return *world();
}

void add_to(World& world, const std::shared_ptr<GroupState>& group) {
  std::erase_if(world.groups, [](const auto& each) { return each.expired(); });
  world.groups.push_back(group);
}

namespace {

// Destroys `held` on another thread, which is joined at exit.
template <class Held>
void destroy_elsewhere(Held held) {
  static std::mutex mutex;
  static std::jthread last;
  const std::lock_guard lock(mutex);
  // Each thread joins the previous one, so only one is left to join at exit.
  last = std::jthread([held = std::move(held), before = std::move(last)]() mutable {
    const Held gone = std::move(held);
  });
}

}  // namespace

GroupState::~GroupState() {
  if (maker == std::this_thread::get_id()) free();
  if (!process_group) return;
  c10d::unregister_process_group(name);
  destroy_elsewhere(std::pair(std::move(process_group), std::move(under_way)));
}

void GroupState::hold(c10::intrusive_ptr<c10d::Work> work) {
  const std::lock_guard lock(under_way_mutex);
  if (under_way.size() >= sweep_at) {
    std::erase_if(under_way, [](const auto& one) { return one->isCompleted(); });
    sweep_at = std::max<std::size_t>(16, 2 * under_way.size());
  }
  under_way.push_back(std::move(work));
}

void GroupState::free() {
  if (!process_group) return;
  under_way.clear();
  c10d::unregister_process_group(name);
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  const std::lock_guard lock(free_mutex_);
  group = std::move(process_group);
  process_group = {};
}

BorrowedGroup::BorrowedGroup(GroupState& state) {
  const std::lock_guard lock(state.free_mutex_);
  group_ = state.process_group;
}

BorrowedGroup::~BorrowedGroup() {
  if (group_) destroy_elsewhere(std::move(group_));
}

GroupState& state_of(const Group& group) {
  if (!group.is_default()) return *GroupAccess::state(group);
  return *the_world().group;
}

std::string describe(const Group& group) {
  if (group.is_default() || (world() != nullptr && GroupAccess::state(group) == world()->group)) {
    return "the default group";
  }
  const GroupState& state = state_of(group);
  return c10::str("group ", state.name, " of ", list_of_ranks(state.ranks));
}

}  // namespace internal

bool Group::is_member() const { return internal::state_of(*this).is_member; }

const c10::intrusive_ptr<c10d::ProcessGroup>& Group::process_group() const {
  const internal::GroupState& state = internal::state_of(*this);
  TORCH_CHECK(state.is_member, "this rank is not in ", internal::describe(*this));
  TORCH_CHECK(state.process_group, internal::describe(*this), " has been destroyed");
  return state.process_group;
}

}  // namespace distrun
