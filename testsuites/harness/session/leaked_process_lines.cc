#include "testsuites/harness/session/leaked_process_lines.h"

#include <fmt/format.h>

namespace distrun {

std::vector<std::string> lines_about(const KilledProcesses& left, WasInterrupted interrupted) {
  std::vector<std::string> lines;
  if (interrupted == WasInterrupted::kNo) {
    for (const LeakedProcess& one : left.killed) {
      lines.push_back(
          fmt::format("killed a process that tests leaked: {} ({})", one.pid, one.name));
    }
  }
  for (const LeakedProcess& one : left.survivors) {
    lines.push_back(
        fmt::format("could not kill a process: {} ({}) is stuck in the kernel", one.pid, one.name));
  }
  return lines;
}

}  // namespace distrun
