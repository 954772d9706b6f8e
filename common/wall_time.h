// A moment by the machine's clock, comparable between processes.
#pragma once

#include <chrono>

namespace distrun {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

inline WallTime wall_time_now() {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

}  // namespace distrun
