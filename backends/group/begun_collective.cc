#include "backends/group/begun_collective.h"

#include <chrono>
#include <utility>

#include "backends/group/group_state.h"

namespace distrun::internal {

BegunCollective::BegunCollective(WorkPtr work, std::shared_ptr<Listener> listener)
    : Work(/*rank=*/-1, work->retrieveOpType()),
      work_(std::move(work)),
      listener_(std::move(listener)) {}

bool BegunCollective::isCompleted() { return work_->isCompleted(); }
bool BegunCollective::isSuccess() const { return work_->isSuccess(); }
std::exception_ptr BegunCollective::exception() const { return work_->exception(); }
int BegunCollective::sourceRank() const { return work_->sourceRank(); }
std::vector<at::Tensor> BegunCollective::result() { return work_->result(); }
void BegunCollective::synchronize() { work_->synchronize(); }
void BegunCollective::blockCurrentStream() { work_->blockCurrentStream(); }
void BegunCollective::abort() { work_->abort(); }
c10::intrusive_ptr<c10::ivalue::Future> BegunCollective::getFuture() { return work_->getFuture(); }
c10::intrusive_ptr<c10::ivalue::Future> BegunCollective::getFutureResult() {
  return work_->getFutureResult();
}
float BegunCollective::getDuration() const { return work_->getDuration(); }
std::uint64_t BegunCollective::getSequencenumber() const { return work_->getSequencenumber(); }

bool BegunCollective::wait(std::chrono::milliseconds timeout) {
  bool done = false;
  listener_->on_wait([&] { done = work_->wait(timeout); });
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
