// What is said of processes that tests have left behind, and that were found when nothing of the
// run was to be there any more.
//
//     for (const std::string& line : lines_about(end_descendants(30s), WasInterrupted::kNo)) …
//
//     "ended a process that tests have left behind: 4711 (sleep)"
//     "could not end a process: 4712 (cp) is stuck in the kernel, and still there"
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/process/descendants.h"

namespace distrun {

// Then tests have been ended in their midst, and what they had started is no fault of theirs.
enum class WasInterrupted { kNo, kYes };

std::vector<std::string> lines_about(const EndedDescendants& left, WasInterrupted interrupted);

}  // namespace distrun
