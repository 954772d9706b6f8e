// ProcessSet is the processes of one ProcessContext: it waits for their ends, finds the first
// failure, and ends the others.
//
//     ProcessSet set(grace_period);
//     set.add(start_fresh(0));
//     set.add(start_fresh(1));
//     set.join();
//
// In a fork of this process, pthread_atfork closes the descriptors and abandons the set: otherwise
// the fork would hold the lifelines, and its destructor would end the parent's processes.
//
// Not thread-safe.
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
  // Ends and reaps running processes.
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // The result lives as long as the set. If this throws, the process has ended.
  StartedProcess& add(StartedProcess process);

  // Like ProcessContext::join().
  bool join(Clock::time_point until = Clock::time_point::max());
  // Like ProcessContext::finish(); `timeout` is for the error.
  void finish(Clock::time_point until, std::chrono::milliseconds timeout);

  // Waits until a process ends or, if `is_full`, `process` can be sent a packet. False if a process
  // has failed or `process` has ended: then call join().
  bool wait_to_send(const StartedProcess& process, bool is_full, Clock::time_point until);
  bool has_failed() const { return failure_ != nullptr; }

  std::vector<pid_t> pids() const;

  // For a fork: closes and forgets everything, without ending processes.
  void abandon();

 private:
  struct Worker {
    StartedProcess process;
    bool has_ended = false;
    ProcessExitedException::Stage stage = ProcessExitedException::Stage::kStarted;
    std::optional<WorkerHasRaised> raised = std::nullopt;
  };

  // Handles ends of processes, or waits for one; false if there is none by `until`.
  bool wait(Clock::time_point until);
  void take_end(Worker& worker);
  // Reads the worker's messages.
  static void listen(Worker& worker);
  // Null if the ended worker succeeded.
  std::exception_ptr failure_of(const Worker& worker, const std::optional<ProcessEnd>& end);
  std::exception_ptr first_raised(const Worker& worker);
  void end_rest();
  std::vector<int> alive() const;

  const std::chrono::milliseconds grace_period_;
  UniqueFd epoll_;  // Reports pidfds in the order of the ends.
  std::deque<Worker> workers_;
  std::size_t alive_ = 0;
  std::exception_ptr failure_;
  bool is_abandoned_ = false;
};

}  // namespace distrun::internal
