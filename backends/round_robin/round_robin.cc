#include "distrun/round_robin.h"

#include <utility>

#include <c10/util/Exception.h>

namespace distrun {

namespace {

// The first of them: all have its rank and size.
const c10d::Backend& model_of(const std::vector<RoundRobin::BackendPtr>& groups) {
  TORCH_CHECK(!groups.empty(), "round robin: no group to pass collectives to");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    TORCH_CHECK(groups[i], "round robin: group ", i, " of ", groups.size(), " is null");
  }
  const c10d::Backend& model = *groups.front();
  for (const auto& group : groups) {
    TORCH_CHECK(group->getRank() == model.getRank() && group->getSize() == model.getSize(),
                "round robin: the groups are not of the same ranks: this is rank ", model.getRank(),
                " of ", model.getSize(), " in the first and rank ", group->getRank(), " of ",
                group->getSize(), " in another");
  }
  return model;
}

}  // namespace

RoundRobin::RoundRobin(std::vector<BackendPtr> groups)
    : ForwardingCollectives(model_of(groups).getRank(), model_of(groups).getSize()),
      groups_(std::move(groups)) {}

void RoundRobin::setTimeout(std::chrono::milliseconds timeout) {
  for (const auto& group : groups_) group->setTimeout(timeout);
}

void RoundRobin::abort() {
  for (const auto& group : groups_) group->abort();
}

void RoundRobin::shutdown() {
  for (const auto& group : groups_) group->shutdown();
}

c10d::Backend& RoundRobin::for_collective() {
  c10d::Backend& group = *groups_[turn_];
  turn_ = (turn_ + 1) % groups_.size();
  return group;
}

}  // namespace distrun
