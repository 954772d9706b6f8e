// ProcessContext owns the processes that start_processes() started.
//
//     ProcessContext context = start_processes(kWorker, 2, {.arguments = {.tensors = {x}}});
//     while (!context.join(std::chrono::seconds(1))) std::cout << "still at work\n";
//
// When a process fails, the other processes get SIGTERM, and SIGKILL after the grace period.
// Stopped processes are resumed by SIGCONT.  A process that still runs ten seconds after SIGKILL,
// because it waits for a disk or a driver, is abandoned.  The process that failed and ended first
// counts as the first failure.  If it raised an exception, and other processes have also reported
// exceptions by that time, the exception that was thrown first counts instead.
//
// ProcessContext does not affect the children of its processes, the caller's other children, or the
// caller's signal handlers.  If SIGCHLD is ignored, a process counts as successful if its function
// has returned; for other processes it is unknown how they ended.
//
// Methods of a moved-from object throw c10::Error.
//
// Thread safety: one thread at a time.  In a fork of the owning process, the object cannot be used,
// and destroying it has no effect.
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
  // Ends and reaps the processes that are still alive.
  //
  // Blocks: at most the grace period plus ten seconds.
  ~ProcessContext();

  // Waits for the processes.  Returns true if all have succeeded, false if some are still running.
  //
  // Blocks: until all have ended or one has failed, at most `timeout`; std::nullopt means no
  // timeout, and zero does not wait.  After a failure, at most the grace period plus ten seconds
  // more, until the other processes have ended.
  // Throws: ProcessException for the first process that failed, after the others have ended.  A
  // later call throws the same exception again.
  bool join(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Waits for the processes and ends all of them at the timeout.
  //
  // Blocks: as join().  After the timeout, at most the grace period plus ten seconds more, until
  // the processes have ended.
  // Throws: the exceptions of join(); ProcessTimedOut if a process was still running at the
  // timeout.
  void finish(std::chrono::milliseconds timeout);

  // Returns the process ids by index, including those of processes that have ended.
  std::vector<pid_t> pids() const;

 private:
  friend struct internal::ProcessContextAccess;
  explicit ProcessContext(std::unique_ptr<internal::ProcessSet> set);
  internal::ProcessSet& set() const;

  std::unique_ptr<internal::ProcessSet> set_;
};

}  // namespace distrun
