// The work of a call of the backend shm, and the queue in which such calls run.
//
//     auto work = c10::make_intrusive<QueuedWork>(…, queue, call);
//     queue->add(work);
//     work->wait();                  // Runs it here, and whatever was added before; or:
//     queue->run_soon();             // On the queue's thread, which exists from then on.
//
// The calls of a group run one after the other, in the order in which they were added. A thread
// that waits anyway runs the calls itself, because to wake another thread costs more than a small
// call.
//
// Thread safety: any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/util/FunctionRef.h>
#include <sys/types.h>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unistd.h>

#include "backends/group/work_future.h"

namespace distrun::shm {

class CallQueue;

class ShmWork : public c10d::Work, public internal::AlwaysHasFuture {
 public:
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  struct Facts {
    int rank = 0;
    c10d::OpType type = c10d::OpType::UNKNOWN;
    const char* title = nullptr;  // For the profiler.
    std::uint64_t number = 0;
  };
  ShmWork(const Facts& facts, TensorLists outputs);

  // With a timeout, another thread does what there is to do.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  bool isCompleted() override;
  std::vector<at::Tensor> result() override;
  std::uint64_t getSequencenumber() const override { return number_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 protected:
  // Does what there is to do, on this thread. Another thread may do it meanwhile.
  virtual void do_here() = 0;
  // Lets another thread do it.
  virtual void do_soon() = 0;

  // Once. Runs the future's callbacks. When wait() returns, the future is complete, too.
  void complete(const std::exception_ptr& error);

 private:
  // The future's callbacks have run, or this is one of them.
  bool is_over() const { return completed_ || completing_ == std::this_thread::get_id(); }
  c10::IValue value() const;
  void settle(c10::ivalue::Future& future) const;

  const std::uint64_t number_;
  const TensorLists outputs_;
  // mutex_ guards these. A future that exists when the work is settled is completed there, and a
  // later one where it is made.
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::exception_ptr error_;
  bool is_settled_ = false;
  std::thread::id completing_;
};

// A call in a queue.
class QueuedWork : public ShmWork {
 public:
  // `call` runs once, and its exception becomes the work's.
  QueuedWork(const Facts& facts, TensorLists outputs, std::shared_ptr<CallQueue> queue,
             std::function<void()> call);

 protected:
  void do_here() override;
  void do_soon() override;

 private:
  friend class CallQueue;
  std::exception_ptr run();

  const std::shared_ptr<CallQueue> queue_;
  std::function<void()> call_;
  bool has_run_ = false;  // The queue's mutex guards it.
};

class CallQueue : public std::enable_shared_from_this<CallQueue> {
 public:
  using WorkPtr = c10::intrusive_ptr<QueuedWork>;

  void add(WorkPtr work);
  // Lets the queue's thread run what has been added.
  void run_soon();
  // Runs calls on this thread until `work` has run, here or elsewhere.
  void run_until(const QueuedWork& work);

  // Runs `call` here. False, without doing so, if a call is running or pending, or close() was
  // called. Takes no lock unless another thread waits: locks would take longer than a small call.
  bool run_now(c10::function_ref<void()> call);

  // Runs what has been added, and ends the thread. Call it before the last owner lets go.
  void close();

 private:
  class RunningNow;

  // Requires a call, and that none runs. Lets go of the lock meanwhile. Returns the work, which
  // must not be destroyed under the lock (ended_tensors.h).
  WorkPtr run_first(std::unique_lock<std::mutex>& lock);
  void work_until_closed();
  bool is_running() const { return (state_ & kRunning) != 0; }

  // kRunning: a call runs. kOthers: calls are in the queue, or it closes.
  static constexpr std::uint32_t kRunning = 1, kOthers = 2;
  // run_now() sets kRunning only while kOthers is not set, and needs no mutex for that. Nor to
  // clear it; but if kOthers is set then, it notifies those that wait.
  std::atomic<std::uint32_t> state_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkPtr> pending_;
  bool is_wanted_ = false;  // The thread.
  bool is_closing_ = false;
  bool is_closed_ = false;
  std::thread thread_;
  const pid_t process_ = ::getpid();  // A child of fork() has no such thread.
};

}  // namespace distrun::shm
