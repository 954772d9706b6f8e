// What distrun says of leaked processes that it finds after the last test has ended.
//
//     const KilledProcesses left = kill_leaked_processes(30s);
//     for (const std::string& line : lines_about(left, WasInterrupted::kNo)) …
//
//     "killed a process that tests leaked: 4711 (sleep)"
//     "could not end a process: 4712 (cp) is stuck in the kernel, and still there"
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/leaked_processes.h"

namespace distrun {

// Then tests have been ended in their midst, and what they had started is no fault of theirs.
enum class WasInterrupted { kNo, kYes };

std::vector<std::string> lines_about(const KilledProcesses& left, WasInterrupted interrupted);

}  // namespace distrun
