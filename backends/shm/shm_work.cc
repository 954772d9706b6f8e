#include "backends/shm/shm_work.h"

#include <utility>

#include <c10/util/Exception.h>

#include "backends/shm/ended_tensors.h"

namespace distrun::shm {

namespace {

c10::intrusive_ptr<c10::ivalue::Future> make_future(std::size_t lists) {
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  return c10::make_intrusive<c10::ivalue::Future>(lists > 1 ? c10::ListType::create(list) : list);
}

}  // namespace

ShmWork::ShmWork(const Facts& facts, TensorLists outputs)
    : Work(facts.rank, facts.type, facts.title),
      number_(facts.number),
      outputs_(std::move(outputs)) {}

bool ShmWork::wait(std::chrono::milliseconds timeout) {
  if (timeout == kNoTimeout) {
    do_here();
  } else {
    do_soon();
  }
  std::unique_lock lock(mutex_);
  if (timeout == kNoTimeout) {
    cv_.wait(lock, [&] { return is_over(); });
  } else if (!cv_.wait_for(lock, timeout, [&] { return is_over(); })) {
    TORCH_CHECK_WITH(DistBackendError, false, "timed out after ", timeout.count(),
                     "ms: the operation is not complete");
  }
  if (error_) std::rethrow_exception(error_);
  return true;
}

bool ShmWork::isCompleted() {
  {
    const std::lock_guard lock(mutex_);
    if (is_settled_ && (!future_ || future_->completed())) return true;
  }
  do_soon();  // The caller may ask until it is.
  return false;
}

std::vector<at::Tensor> ShmWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& list : outputs_) all.insert(all.end(), list.begin(), list.end());
  return all;
}

c10::intrusive_ptr<c10::ivalue::Future> ShmWork::getFuture() {
  bool is_settled = false;
  {
    const std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ = make_future(outputs_.size());
    is_settled = is_settled_;
  }
  if (is_settled) {
    settle(*future_);
  } else {
    do_soon();
  }
  return future_;
}

void ShmWork::settle(c10::ivalue::Future& future) const {
  if (error_) {
    future.setError(error_);
  } else {
    future.markCompleted(value());
  }
}

c10::IValue ShmWork::value() const {
  if (outputs_.size() > 1) return outputs_;
  return outputs_.empty() ? std::vector<at::Tensor>() : outputs_.front();
}

void ShmWork::complete(const std::exception_ptr& error) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
    is_settled_ = true;
    completing_ = std::this_thread::get_id();
    future = future_;
  }
  try {
    if (future) settle(*future);
  } catch (const std::exception& thrown) {  // No caller could handle it.
    TORCH_WARN("a callback of a future of shm threw: ", thrown.what());
  } catch (...) {
    TORCH_WARN("a callback of a future of shm threw: an exception without a text");
  }
  finish(error);
}

QueuedWork::QueuedWork(const Facts& facts, TensorLists outputs, std::shared_ptr<CallQueue> queue,
                       std::function<void()> call)
    : ShmWork(facts, std::move(outputs)), queue_(std::move(queue)), call_(std::move(call)) {}

void QueuedWork::do_here() { queue_->run_until(*this); }
void QueuedWork::do_soon() { queue_->run_soon(); }

std::exception_ptr QueuedWork::run() {
  std::exception_ptr error;
  try {
    call_();
  } catch (...) {
    error = std::current_exception();
  }
  call_ = nullptr;  // Lets go of the tensors.
  return error;
}

void CallQueue::add(WorkPtr work) {
  const std::lock_guard lock(mutex_);
  pending_.push_back(std::move(work));
  state_ |= kOthers;
}

void CallQueue::run_soon() {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return;
  is_wanted_ = true;
  if (!thread_.joinable() && !is_closed_) {
    thread_ = std::thread([self = shared_from_this()] { self->work_until_closed(); });
  }
  changed_.notify_all();
}

CallQueue::WorkPtr CallQueue::run_first(std::unique_lock<std::mutex>& lock) {
  WorkPtr work = std::move(pending_.front());
  pending_.pop_front();
  state_ |= kRunning;
  lock.unlock();
  const std::exception_ptr error = work->run();
  lock.lock();
  state_ = pending_.empty() && !is_closing_ ? 0 : kOthers;
  work->has_run_ = true;
  if (pending_.empty()) is_wanted_ = false;
  changed_.notify_all();
  lock.unlock();
  // Callbacks of its future may call the group, and wait.
  work->complete(error);
  lock.lock();
  return work;
}

class CallQueue::RunningNow {
 public:
  explicit RunningNow(CallQueue& queue) : queue_(queue) {}
  ~RunningNow() {
    if (queue_.state_.fetch_and(~kRunning) == kRunning) return;
    // Whoever saw kRunning holds the mutex until it waits.
    const std::lock_guard lock(queue_.mutex_);
    queue_.changed_.notify_all();
  }
  RunningNow(const RunningNow&) = delete;
  RunningNow& operator=(const RunningNow&) = delete;

 private:
  CallQueue& queue_;
};

bool CallQueue::run_now(c10::function_ref<void()> call) {
  std::uint32_t idle = 0;
  if (!state_.compare_exchange_strong(idle, kRunning)) return false;
  const RunningNow running(*this);
  call();
  return true;
}

void CallQueue::run_until(const QueuedWork& work) {
  std::vector<WorkPtr> ended;
  std::unique_lock lock(mutex_);
  while (!work.has_run_) {
    if (is_running()) {
      changed_.wait(lock);
    } else {
      ended.push_back(run_first(lock));
    }
  }
}

void CallQueue::work_until_closed() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_closed_ || (is_wanted_ && !is_running()); });
    if (is_closed_) return;
    EndedTensors::keep(run_first(lock)->result());
  }
}

void CallQueue::close() {
  if (::getpid() != process_) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  std::vector<WorkPtr> ended;
  std::unique_lock lock(mutex_);
  is_closing_ = true;
  state_ |= kOthers;
  while (is_running() || !pending_.empty()) {
    if (is_running()) {
      changed_.wait(lock);
    } else {
      ended.push_back(run_first(lock));
    }
  }
  is_closed_ = true;
  changed_.notify_all();
  std::thread thread = std::move(thread_);
  lock.unlock();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

}  // namespace distrun::shm
