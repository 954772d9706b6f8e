#include "backends/group/observed_work.h"

#include <mutex>
#include <utility>

#include "backends/group/work_future.h"

namespace distrun::internal {

struct ObservedWork::End {
  void happened() { std::call_once(once, on_end); }

  std::once_flag once;
  const std::function<void()> on_end;
};

ObservedWork::ObservedWork(c10::intrusive_ptr<c10d::Work> work, std::function<void()> on_end)
    : Work(/*rank=*/-1, work->retrieveOpType()),
      work_(std::move(work)),
      end_(new End{.once = {}, .on_end = std::move(on_end)}) {
  if (const auto future = future_of(*work_)) {
    future_ = future->then(
        [end = end_](c10::ivalue::Future& its) {
          c10::IValue value = its.value();  // Throws if the operation failed.
          end->happened();
          return value;
        },
        future->elementType());
  }
}

bool ObservedWork::wait(std::chrono::milliseconds timeout) {
  const bool done = work_->wait(timeout);
  end_->happened();
  return done;
}

bool ObservedWork::isCompleted() {
  if (future_) return future_->completed();
  return work_->isCompleted();
}

bool ObservedWork::isSuccess() const { return work_->isSuccess(); }
std::exception_ptr ObservedWork::exception() const { return work_->exception(); }
int ObservedWork::sourceRank() const { return work_->sourceRank(); }
std::vector<at::Tensor> ObservedWork::result() { return work_->result(); }
void ObservedWork::synchronize() { work_->synchronize(); }
void ObservedWork::blockCurrentStream() { work_->blockCurrentStream(); }
void ObservedWork::abort() { work_->abort(); }
c10::intrusive_ptr<c10::ivalue::Future> ObservedWork::getFuture() {
  return future_ ? future_ : work_->getFuture();
}
c10::intrusive_ptr<c10::ivalue::Future> ObservedWork::getFutureResult() {
  return work_->getFutureResult();
}
float ObservedWork::getDuration() const { return work_->getDuration(); }
std::uint64_t ObservedWork::getSequencenumber() const { return work_->getSequencenumber(); }

}  // namespace distrun::internal
