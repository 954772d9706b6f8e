#include "backends/group/forwarding_work.h"

#include <utility>

namespace distrun::internal {

ForwardingWork::ForwardingWork(WorkPtr work)
    : Work(/*rank=*/-1, work->retrieveOpType()), work_(std::move(work)) {}

bool ForwardingWork::isCompleted() { return work_->isCompleted(); }
bool ForwardingWork::isSuccess() const { return work_->isSuccess(); }
std::exception_ptr ForwardingWork::exception() const { return work_->exception(); }
int ForwardingWork::sourceRank() const { return work_->sourceRank(); }
std::vector<at::Tensor> ForwardingWork::result() { return work_->result(); }
void ForwardingWork::synchronize() { work_->synchronize(); }
bool ForwardingWork::wait(std::chrono::milliseconds timeout) { return work_->wait(timeout); }
void ForwardingWork::blockCurrentStream() { work_->blockCurrentStream(); }
void ForwardingWork::abort() { work_->abort(); }
c10::intrusive_ptr<c10::ivalue::Future> ForwardingWork::getFuture() { return work_->getFuture(); }
c10::intrusive_ptr<c10::ivalue::Future> ForwardingWork::getFutureResult() {
  return work_->getFutureResult();
}
float ForwardingWork::getDuration() const { return work_->getDuration(); }
std::uint64_t ForwardingWork::getSequencenumber() const { return work_->getSequencenumber(); }

}  // namespace distrun::internal
