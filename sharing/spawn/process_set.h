// The processes of one ProcessContext: waits for their ends, decides who has failed first, and ends
// the others.
//
//     ProcessSet set(grace_period);
//     set.add(start_fresh(0));
//     set.add(start_fresh(1));
//     set.join();
//
// In a fork of this process (pthread_atfork) its descriptors are closed and it is abandoned: else
// the fork would hold the lifelines, and its destructors would end another process's children.
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <vector>

#include "distrun/process_exception.h"
#include "sharing/spawn/started_process.h"
#include "sharing/spawn/worker_message.h"

namespace distrun::internal {

class ProcessSet {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ProcessSet(std::chrono::milliseconds grace_period);
  // Ends and reaps what is still alive.
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // The result lives as long as the set.  Where it throws the process has been ended.
  StartedProcess& add(StartedProcess process);

  // As ProcessContext::join().
  bool join(Clock::time_point until = Clock::time_point::max());
  // As ProcessContext::finish(), for a time that may have begun before.
  void finish(Clock::time_point until, std::chrono::milliseconds timeout);

  // Waits until `process` ends, or any other does, or it can be sent a packet (where `is_full`).
  // False where one has failed, or it has ended: join() has more then.
  bool wait_to_send(const StartedProcess& process, bool is_full, Clock::time_point until);
  bool has_failed() const { return failure_ != nullptr; }

  std::vector<pid_t> pids() const;

  // In a fork.  Only closes and forgets.
  void abandon();

 private:
  struct Worker {
    StartedProcess process;
    bool has_ended = false;
    ProcessExitedException::Stage stage = ProcessExitedException::Stage::kStarted;
    std::optional<WorkerHasRaised> raised = std::nullopt;
  };

  // Takes the ends that there are, or wait for one; false where there was none until the time was
  // over.
  bool wait(Clock::time_point until);
  void take_end(Worker& worker);
  // Takes what it has said.
  static void listen(Worker& worker);
  // Of one that has ended, where none has failed before; null where it has ended well.
  std::exception_ptr failure_of(const Worker& worker, const std::optional<ProcessEnd>& end);
  std::exception_ptr first_raised(const Worker& worker);
  void end_rest();
  std::vector<int> alive() const;

  const std::chrono::milliseconds grace_period_;
  UniqueFd epoll_;  // Tells of pidfds in the order in which the processes have ended.
  std::deque<Worker> workers_;
  std::size_t alive_ = 0;
  std::exception_ptr failure_;
  bool is_abandoned_ = false;
};

}  // namespace distrun::internal
