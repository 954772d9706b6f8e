#include "distrun/process_exception.h"

#include <c10/util/StringUtil.h>

namespace distrun {

namespace {

std::string who(int index, pid_t pid) { return c10::str("process ", index, " (pid ", pid, ")"); }

std::string how(const std::optional<ProcessEnd>& end) {
  if (!end) {
    return "ended with an unknown status: SIGCHLD is ignored, or other code reaped the process";
  }
  const bool was_killed = std::holds_alternative<KilledBy>(*end);
  return (was_killed ? "ended by " : "ended with ") + describe(*end);
}

std::string when(ProcessExitedException::Stage stage, const std::optional<ProcessEnd>& end) {
  const bool exited = end && std::holds_alternative<ExitedWith>(*end);
  switch (stage) {
    case ProcessExitedException::Stage::kStarted:
      return exited ? " before it started: main() must call run_if_spawned() first"
                    : " before it started";
    case ProcessExitedException::Stage::kBegun:
      return exited ? " before its function returned" : "";
    case ProcessExitedException::Stage::kReturned:
      return " after its function returned";
  }
  return "";
}

// "processes 0, 1 and 2 have".
std::string which_have(const std::vector<int>& indices) {
  std::string text = indices.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i > 0) text += i + 1 == indices.size() ? " and " : ", ";
    text += std::to_string(indices[i]);
  }
  return text + (indices.size() == 1 ? " has" : " have");
}

}  // namespace

ProcessException::ProcessException(int index, pid_t pid, const std::string& what)
    : c10::Error(who(index, pid) + " " + what), index_(index), pid_(pid) {}

ProcessRaisedException::ProcessRaisedException(int index, pid_t pid, std::string type,
                                               std::string text)
    : ProcessException(index, pid, "raised " + type + ": " + text),
      type_(std::move(type)),
      text_(std::move(text)) {}

ProcessExitedException::ProcessExitedException(int index, pid_t pid, std::optional<ProcessEnd> end,
                                               Stage stage)
    : ProcessException(index, pid, how(end) + when(stage, end)), end_(end), stage_(stage) {}

ProcessTimedOut::ProcessTimedOut(std::vector<int> indices, long long milliseconds)
    : c10::Error(c10::str(which_have(indices), " not ended within ", milliseconds, " ms")),
      indices_(std::move(indices)) {}

}  // namespace distrun
