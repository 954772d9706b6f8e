// WorkerLoad and WorkerText: what a report of a run (--html) shows besides the run's events.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/rank.h"

namespace distrun {

// The load of a worker's own process, without its children.
struct WorkerLoad {
  LocalRank worker;
  std::chrono::milliseconds cpu_time{0};  // Since its start.
  std::uint64_t resident_bytes = 0;
};

// The output of a worker in an attempt, shortened (captured_text.h).  Streams that go to a file
// only are not in it.
struct WorkerText {
  int attempt = 0;
  LocalRank worker;
  std::string text;
};

}  // namespace distrun
