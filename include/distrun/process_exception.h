// Exceptions that spawn() and ProcessContext throw for processes that fail.
//
//     try {
//       spawn(kWorker, 2);
//     } catch (const ProcessRaisedException& raised) {
//       … raised.index(), raised.type(), raised.text() …
//     } catch (const ProcessExitedException& exited) {
//       … exited.index(), exited.end() …
//     }
//
// All these exceptions derive from c10::Error.  Their texts are for users:
//
//     process 1 (pid 4711) raised c10::ValueError: the learning rate is -1
//     process 0 (pid 4710) ended by signal SIGKILL (9)
//     processes 0 and 2 have not ended within 500 ms
//
// PyTorch source: torch/multiprocessing/spawn.py.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <sys/types.h>

#include "distrun/process_end.h"

namespace distrun {

// The base class of the exceptions for one failed process.
class ProcessException : public c10::Error {
 public:
  // Returns the index of the process, from 0.  The process's function gets the same index.
  int index() const { return index_; }
  // Returns the process id.
  pid_t pid() const { return pid_; }

 protected:
  // Adds the index and the process id before `what`.
  ProcessException(int index, pid_t pid, const std::string& what);

 private:
  int index_;
  pid_t pid_;
};

// Thrown if the function of the process threw an exception.
class ProcessRaisedException : public ProcessException {
 public:
  // Only distrun calls this constructor.
  ProcessRaisedException(int index, pid_t pid, std::string type, std::string text);

  // Returns the type of the exception, such as "c10::ValueError".
  const std::string& type() const { return type_; }
  // Returns what() of the exception, without the backtrace of a c10::Error.  The text has at most
  // 64 KiB.
  const std::string& text() const { return text_; }

 private:
  std::string type_;
  std::string text_;
};

// Thrown if the process ended before its function returned.  Also thrown if the function returned
// and the process did not exit with code 0.
class ProcessExitedException : public ProcessException {
 public:
  // What the process had done before it ended.
  enum class Stage {
    kStarted,  // The process did not reach run_if_spawned().
    kBegun,    // It reached run_if_spawned() or is a fork.  Its function did not return.
    kReturned  // Its function returned.
  };

  // Only distrun calls this constructor.
  ProcessExitedException(int index, pid_t pid, std::optional<ProcessEnd> end, Stage stage);

  // Returns how the process ended.  If SIGCHLD is ignored or other code has reaped the process, its
  // end is unknown, and end() returns nothing.
  const std::optional<ProcessEnd>& end() const { return end_; }
  // Returns what the process had done before it ended.
  Stage stage() const { return stage_; }

 private:
  std::optional<ProcessEnd> end_;
  Stage stage_;
};

// Thrown if processes were still running at the timeout.  spawn() or ProcessContext::finish() has
// ended these processes.
class ProcessTimedOut : public c10::Error {
 public:
  // Only distrun calls this constructor.
  ProcessTimedOut(std::vector<int> indices, long long milliseconds);

  // Returns the indices of these processes.
  const std::vector<int>& indices() const { return indices_; }

 private:
  std::vector<int> indices_;
};

}  // namespace distrun
