#include "distrun/round_robin.h"

#include <cstddef>
#include <utility>

#include <c10/util/Exception.h>

#include "backends/group/forwarding_backend.h"

namespace distrun {

namespace {

using Groups = std::vector<c10::intrusive_ptr<c10d::Backend>>;

// Returns the first group. Checks that all have its rank and size.
const c10d::Backend& model_of(const Groups& groups) {
  TORCH_CHECK(!groups.empty(), "round robin: no group to pass collectives to");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    TORCH_CHECK(groups[i], "round robin: group ", i, " of ", groups.size(), " is null");
  }
  const c10d::Backend& model = *groups.front();
  for (const auto& group : groups) {
    TORCH_CHECK(group->getRank() == model.getRank() && group->getSize() == model.getSize(),
                "round robin: groups have different ranks: this is rank ", model.getRank(), " of ",
                model.getSize(), " in the first and rank ", group->getRank(), " of ",
                group->getSize(), " in another");
  }
  return model;
}

class RoundRobin : public internal::ForwardingCollectives {
 public:
  explicit RoundRobin(Groups groups)
      : ForwardingCollectives(model_of(groups).getRank(), model_of(groups).getSize()),
        groups_(std::move(groups)) {}

  const std::string getBackendName() const override { return "round_robin"; }

  void setTimeout(std::chrono::milliseconds timeout) override {
    for (const auto& group : groups_) group->setTimeout(timeout);
  }

  void abort() override {
    for (const auto& group : groups_) group->abort();
  }

  void shutdown() override {
    for (const auto& group : groups_) group->shutdown();
  }

 private:
  c10d::Backend& for_collective() override {
    c10d::Backend& group = *groups_[turn_];
    turn_ = (turn_ + 1) % groups_.size();
    return group;
  }

  const Groups groups_;
  std::size_t turn_ = 0;  // The index of the next collective's group.
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_round_robin(Groups groups) {
  return c10::make_intrusive<RoundRobin>(std::move(groups));
}

}  // namespace distrun
