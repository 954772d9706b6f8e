// What spawn() and ProcessContext::join() throw where a process has not ended well.
//
//     try {
//       spawn(kWorker, 2);
//     } catch (const ProcessRaisedException& raised) {
//       … raised.index(), raised.type(), raised.text() …
//     } catch (const ProcessExitedException& exited) {
//       … exited.index(), exited.end() …
//     }
//
// All are c10::Error, and their text is for a user:
//
//     process 1 (pid 4711) raised c10::ValueError: the learning rate is -1
//     process 0 (pid 4710) ended by signal SIGKILL (9)
//     processes 0 and 2 have not ended within 500 ms
//
// PyTorch: torch/multiprocessing/spawn.py.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <sys/types.h>

#include "distrun/process_end.h"

namespace distrun {

class ProcessException : public c10::Error {
 public:
  int index() const { return index_; }
  pid_t pid() const { return pid_; }

 protected:
  ProcessException(int index, pid_t pid, const std::string& what);

 private:
  int index_;
  pid_t pid_;
};

// The function has thrown.
class ProcessRaisedException : public ProcessException {
 public:
  ProcessRaisedException(int index, pid_t pid, std::string type, std::string text);

  const std::string& type() const { return type_; }  // "c10::ValueError"
  // Its what(), of a c10::Error without the backtrace; at most 64 KiB of it.
  const std::string& text() const { return text_; }

 private:
  std::string type_;
  std::string text_;
};

// The process has ended otherwise than by returning from the function, or could not end well after
// that.
class ProcessExitedException : public ProcessException {
 public:
  // How far it had come.
  enum class Stage { kStarted, kBegun, kReturned };

  ProcessExitedException(int index, pid_t pid, std::optional<ProcessEnd> end, Stage stage);

  // Nothing where somebody else has reaped the process, or SIGCHLD is ignored: nobody knows then.
  const std::optional<ProcessEnd>& end() const { return end_; }
  // kStarted: main() has not called run_if_spawned(), or the process ended on its way there.
  Stage stage() const { return stage_; }

 private:
  std::optional<ProcessEnd> end_;
  Stage stage_;
};

// Some were still alive when the time was over.  They have been ended.
class ProcessTimedOut : public c10::Error {
 public:
  ProcessTimedOut(std::vector<int> indices, long long milliseconds);

  const std::vector<int>& indices() const { return indices_; }

 private:
  std::vector<int> indices_;
};

}  // namespace distrun
