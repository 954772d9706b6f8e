// WorkerLoad and WorkerText: what a report (--html) shows besides the events.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/rank.h"

namespace distrun {

// The load of the worker's process, without its children.
struct WorkerLoad {
  LocalRank worker;
  std::chrono::milliseconds cpu_time{0};  // Since its start.
  std::uint64_t resident_bytes = 0;
};

// A worker's output in an attempt, shortened (captured_text.h), without streams that go only to a
// file.
struct WorkerText {
  int attempt = 0;
  LocalRank worker;
  std::string text;
};

}  // namespace distrun
