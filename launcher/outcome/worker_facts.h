// What a report of a run (--html) shows besides the run's events.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/rank.h"

namespace distrun {

// Of a worker's own process, without its children.
struct WorkerLoad {
  LocalRank worker;
  std::chrono::milliseconds cpu_time{0};  // Since its start.
  std::uint64_t resident_bytes = 0;
};

// What a worker has written in an attempt to the streams that distrun reads, shortened.
struct WorkerText {
  int attempt = 0;
  LocalRank worker;
  std::string text;
};

}  // namespace distrun
