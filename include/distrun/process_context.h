// ProcessContext owns the processes that start_processes() started.
//
//     ProcessContext context = start_processes(kWorker, 2, {.arguments = {.tensors = {x}}});
//     while (!context.join(std::chrono::seconds(1))) std::cout << "still at work\n";
//
// If a process has failed, join() ends the other processes.  It sends them SIGTERM and, after the
// grace period (SpawnOptions::grace_period), SIGKILL.  With each signal it also sends SIGCONT, so
// that stopped processes continue and end.  After SIGKILL, join() waits at most ten seconds.
// Therefore, a process that is blocked in the kernel, for example by a disk or a driver, can
// outlive the ProcessContext.
//
// join() throws an exception for the process that failed first.  This is the first process that
// ended with a failure.  If this process raised an exception, and other processes have also raised
// exceptions, join() throws the exception that was raised first.
//
// ProcessContext does not affect the children of its processes, other children of the caller, or
// the caller's signal handlers.  If the caller ignores SIGCHLD, the exit statuses of the processes
// are lost.  In this case, a process counts as successful if its function has returned.  If the
// function has not returned, it is unknown how the process ended.
//
// Methods of a moved-from object throw c10::Error.
//
// Thread safety: one thread at a time.  In a fork of the process that created the ProcessContext,
// the object cannot be used, and its destructor has no effect.
// Cost: see spawn.h.
// PyTorch source: torch/multiprocessing/spawn.py (ProcessContext).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include <sys/types.h>

#include "distrun/process_exception.h"

namespace distrun {

namespace internal {
class ProcessSet;
struct ProcessContextAccess;
}  // namespace internal

class ProcessContext {
 public:
  ProcessContext(ProcessContext&&) noexcept;
  ProcessContext& operator=(ProcessContext&&) noexcept;
  // Ends and reaps the processes that are still running.
  //
  // Blocks: at most the grace period plus ten seconds.
  ~ProcessContext();

  // Waits for the processes.  Returns true if all processes have succeeded.  Returns false if some
  // processes are still running at the timeout.  std::nullopt means no timeout.  With a timeout of
  // zero, join() does not wait.
  //
  // Blocks: until all processes have ended or one process has failed, at most `timeout`.  After a
  // failure, join() also blocks until the other processes have ended, at most the grace period plus
  // ten seconds.
  // Throws: ProcessException for the first process that failed.  join() throws it after the other
  // processes have ended.  Later calls throw the same exception again.
  bool join(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Waits for the processes.  At the timeout, ends the processes that are still running, and
  // throws.  If finish() returns, all processes have succeeded.
  //
  // Blocks: as join().  After the timeout, finish() also blocks until the processes have ended, at
  // most the grace period plus ten seconds.
  // Throws: the exceptions of join().
  // Also throws ProcessTimedOut if a process was still running at the timeout.
  void finish(std::chrono::milliseconds timeout);

  // Returns the process ids of all processes, including processes that have ended.  Element i is
  // the process id of the process with index i.
  std::vector<pid_t> pids() const;

 private:
  friend struct internal::ProcessContextAccess;
  explicit ProcessContext(std::unique_ptr<internal::ProcessSet> set);
  internal::ProcessSet& set() const;

  std::unique_ptr<internal::ProcessSet> set_;
};

}  // namespace distrun
