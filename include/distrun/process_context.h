// ProcessContext owns the processes that start_processes() started.
//
//     ProcessContext context = start_processes(kWorker, 2, {.arguments = {.tensors = {x}}});
//     while (!context.join(std::chrono::seconds(1))) std::cout << "still at work\n";
//
// When a process fails, the others get SIGTERM, after the grace period SIGKILL; stopped processes
// are woken by SIGCONT.  A process that has not ended ten seconds after SIGKILL, because it waits
// for a disk or a driver, is abandoned.  The kernel's order decides which process failed first; of
// exceptions that are known by then, the first one thrown.
//
// It leaves alone the children of its processes, the caller's other children and its signal
// handlers.  If SIGCHLD is ignored, a process counts as ended normally once its function has
// returned, and otherwise ends in a way that is not known.
//
// Methods of a moved-from object throw c10::Error.
//
// Thread safety: one thread at a time.  In a fork of the owning process it is unusable and
// harmless.
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
