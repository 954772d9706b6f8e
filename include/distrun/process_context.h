// ProcessContext has the processes that start_processes() has started, and ends with them.
//
//     ProcessContext context = start_processes(kWorker, 2, {.arguments = {.tensors = {x}}});
//     while (!context.join(std::chrono::seconds(1))) std::cout << "still at work\n";
//
// The first process that fails decides: the others get SIGTERM, and what is left of them after the
// grace period SIGKILL; SIGCONT wakes those that are stopped.  So join() may take the grace period
// and ten seconds more from the failure on, also where its own timeout is shorter.  What SIGKILL
// has not ended by then, since it waits for a disk or a driver, is given up; of all others none is
// left when join() throws.  Which was first is the kernel's word, in whose order they are looked
// at, however late that is; of exceptions that are known by then it is the one thrown first.
//
// What a process has started itself is that process's to end.  Other children of the caller are
// left alone, and so are its signal handlers.  Where SIGCHLD is ignored, a process that has
// returned from its function is taken at its word, and of another one nobody knows how it ended.
//
// One that has been moved from has no processes: its calls throw c10::Error.
//
// Threads: one at a time.  In a fork of the process that has it, a ProcessContext is of no use and
// does no harm.
//
// PyTorch: ProcessContext in torch/multiprocessing/spawn.py.
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
  // Ends the processes that are still alive, as join() ends the others of one that fails, and reaps
  // them, which may take as long.
  ~ProcessContext();

  // Waits until all have ended, for at most `timeout`; without one, as long as it takes; 0 does not
  // wait.  Returns true if all have ended well, false if some are still at work; they stay so.
  // Throws ProcessException for the first that fails, also when called again.
  bool join(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // As join(), but a process that is still alive when `timeout` is over counts as failed: all are
  // ended, and it throws ProcessTimedOut.
  void finish(std::chrono::milliseconds timeout);

  // By index, also of those that have ended.
  std::vector<pid_t> pids() const;

 private:
  friend struct internal::ProcessContextAccess;
  explicit ProcessContext(std::unique_ptr<internal::ProcessSet> set);
  internal::ProcessSet& set() const;

  std::unique_ptr<internal::ProcessSet> set_;
};

}  // namespace distrun
