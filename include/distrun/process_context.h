// ProcessContext owns the processes that start_processes() started.
//
//     ProcessContext context = start_processes(kWorker, 2, {.arguments = {.tensors = {x}}});
//     while (!context.join(std::chrono::seconds(1))) std::cout << "still at work\n";
//
// When a process fails, the other processes get SIGTERM, and SIGKILL after the grace period.
// Stopped processes are resumed by SIGCONT.  A process that still runs ten seconds after SIGKILL,
// because it waits for a disk or a driver, is abandoned.  The kernel's order of exits decides which
// process failed first.  If several exceptions are known by then, the earliest exception decides.
//
// ProcessContext does not affect the children of its processes, the caller's other children, or the
// caller's signal handlers.  If SIGCHLD is ignored, a process whose function has returned counts as
// successful.  How another process ended is then unknown.
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
  // Blocks: at most the grace period and ten seconds.
  ~ProcessContext();

  // Waits for the processes.  Returns true if all have ended well, false if some are still running.
  //
  // Blocks: until all have ended or one has failed, at most `timeout`; std::nullopt is no timeout,
  // 0 does not wait.  After a failure, up to the grace period and ten seconds more.
  // Throws: ProcessException for the first process that failed, after the others have ended; again
  // when called again.
  bool join(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // Waits for the processes and ends all of them at the timeout.
  //
  // Blocks: as join().
  // Throws: as join(); ProcessTimedOut if a process was still running at the timeout.
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
