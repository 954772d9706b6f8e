// What distrun prints about leaked processes after the last test.
//
//     const KilledProcesses left = kill_leaked_processes(30s);
//     for (const std::string& line : lines_about(left, WasInterrupted::kNo)) …
//
//     "killed a process that tests leaked: 4711 (sleep)"
//     "could not kill a process: 4712 (cp) is stuck in the kernel"
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/leaked_processes.h"

namespace distrun {

// After an interrupt, killed processes are not reported, because their tests could not clean up.
enum class WasInterrupted { kNo, kYes };

std::vector<std::string> lines_about(const KilledProcesses& left, WasInterrupted interrupted);

}  // namespace distrun
