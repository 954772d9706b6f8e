// The current state of a process, from /proc/PID/stat and statm.
//
//     if (const auto stat = read_process_stat(4711)) stat->state …     // 'T': it is stopped
//     const auto sessions = processes_by_session();           // session 4711: 4711, 4712, 4720
//
// nullopt if the process has ended meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <sys/types.h>

namespace distrun {

struct ProcessStat {
  char state = '?';  // See proc(5): R runs, S sleeps, D waits in the kernel, T stopped, Z ended…
  pid_t parent = 0;
  pid_t group = 0;                        // Its leader's pid.
  pid_t session = 0;                      // Its leader's pid.
  std::chrono::milliseconds cpu_time{0};  // All threads, user and system.
  std::uint64_t resident_bytes = 0;
};

// Pure: takes the contents of both files and their units.
struct ProcUnits {
  std::int64_t ticks_per_second = 100;
  std::uint64_t page_bytes = 4096;
};
std::optional<ProcessStat> parse_process_stat(std::string_view stat, std::string_view statm,
                                              const ProcUnits& units);

std::optional<ProcessStat> read_process_stat(pid_t pid);

// The processes of each session or process group of this machine, zombies included, in ascending
// order. Reads a file per process.
std::unordered_map<pid_t, std::vector<pid_t>> processes_by_session();
std::unordered_map<pid_t, std::vector<pid_t>> processes_by_group();

}  // namespace distrun
