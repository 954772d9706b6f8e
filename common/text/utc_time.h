// A moment as text, for files that programs read.
//
//     rfc3339(std::chrono::system_clock::now())   // "2026-03-01T12:00:00.250Z"
//
// Pure.
#pragma once

#include <chrono>
#include <string>

namespace distrun {

// In UTC, with milliseconds.
std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace distrun
