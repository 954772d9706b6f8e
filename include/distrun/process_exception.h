// The exceptions of spawn() and ProcessContext::join() for processes that fail.
//
//     try {
//       spawn(kWorker, 2);
//     } catch (const ProcessRaisedException& raised) {
//       … raised.index(), raised.type(), raised.text() …
//     } catch (const ProcessExitedException& exited) {
//       … exited.index(), exited.end() …
//     }
//
// All are c10::Error with a text for users:
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

// A process failed.
class ProcessException : public c10::Error {
 public:
  // Returns the process's index.
  int index() const { return index_; }
  // Returns the process's id.
  pid_t pid() const { return pid_; }

 protected:
  // Takes the whole text.
  ProcessException(int index, pid_t pid, const std::string& what);

 private:
  int index_;
  pid_t pid_;
};

// The function threw an exception.
class ProcessRaisedException : public ProcessException {
 public:
  // For spawn().
  ProcessRaisedException(int index, pid_t pid, std::string type, std::string text);

  // Returns the exception's type: "c10::ValueError".
  const std::string& type() const { return type_; }
  // Returns the exception's what(), without the backtrace of a c10::Error; at most 64 KiB.
  const std::string& text() const { return text_; }

 private:
  std::string type_;
  std::string text_;
};

// The process ended before the function returned; or the function returned, but the process did not
// exit with code 0.
class ProcessExitedException : public ProcessException {
 public:
  // How far the process came.
  enum class Stage {
    kStarted,  // It has not reached run_if_spawned().
    kBegun,    // It reached run_if_spawned() or is a fork; the function has not returned.
    kReturned  // The function has returned.
  };

  // For spawn().
  ProcessExitedException(int index, pid_t pid, std::optional<ProcessEnd> end, Stage stage);

  // Returns how the process ended; nothing if this is unknown, because SIGCHLD is ignored or other
  // code reaped the process.
  const std::optional<ProcessEnd>& end() const { return end_; }
  // Returns how far the process came.
  Stage stage() const { return stage_; }

 private:
  std::optional<ProcessEnd> end_;
  Stage stage_;
};

// Processes were still running at the timeout.  spawn() or finish() has then ended them
// (process_context.h).
class ProcessTimedOut : public c10::Error {
 public:
  // For spawn().
  ProcessTimedOut(std::vector<int> indices, long long milliseconds);

  // Returns the indices of these processes.
  const std::vector<int>& indices() const { return indices_; }

 private:
  std::vector<int> indices_;
};

}  // namespace distrun
