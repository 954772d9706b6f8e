#include "backends/group/begun_collective.h"

#include <chrono>
#include <utility>

#include "backends/group/group_state.h"

namespace distrun::internal {

BegunCollective::BegunCollective(WorkPtr work, std::shared_ptr<Listener> listener)
    : ForwardingWork(std::move(work)), listener_(std::move(listener)) {}

bool BegunCollective::wait(std::chrono::milliseconds timeout) {
  bool done = false;
  listener_->on_wait([&] { done = work()->wait(timeout); });
  return done;
}

const BegunCollective* as_begun_collective(const c10d::Work& work) {
  return dynamic_cast<const BegunCollective*>(&work);
}

void wait_in(const c10::intrusive_ptr<c10d::ProcessGroup>& group, c10d::Work& work) {
  auto timeout = std::chrono::milliseconds::zero();
  const auto take_timeout_of = [&](const std::shared_ptr<GroupState>& state) {
    if (state && state->process_group == group) timeout = state->timeout;
  };
  if (group && world() != nullptr && takes_first_timeout(work)) {
    take_timeout_of(world()->group);
    for (const auto& one : world()->groups) take_timeout_of(one.lock());
  }
  work.wait(timeout);
}

}  // namespace distrun::internal
