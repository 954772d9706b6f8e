// What the kernel tells of a process at this moment: /proc/PID/stat and statm.
//
//     if (const auto stat = read_process_stat(4711)) stat->state …     // 'T': it is stopped
//     const auto counts = count_sessions();                            // session 4711: 3 processes
//
// A process may end while it is looked at: then there is nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>

#include <sys/types.h>

namespace distrun {

struct ProcessStat {
  char state = '?';  // As in proc(5): R runs, S sleeps, D waits in the kernel, T stopped, Z ended …
  pid_t parent = 0;
  pid_t group = 0;                        // The pid of its leader; the session's likewise.
  pid_t session = 0;                      // The pid of its leader.
  std::chrono::milliseconds cpu_time{0};  // Of all its threads, user and system.
  std::uint64_t resident_bytes = 0;
};

// Pure: the content of the two files, and what the units in them are.
struct ProcUnits {
  std::int64_t ticks_per_second = 100;
  std::uint64_t page_bytes = 4096;
};
std::optional<ProcessStat> parse_process_stat(std::string_view stat, std::string_view statm,
                                              const ProcUnits& units);

std::optional<ProcessStat> read_process_stat(pid_t pid);

// How many processes there are in each session of this machine, those that have ended and are not
// reaped included.  Reads a file for each process there is.
std::unordered_map<pid_t, int> count_sessions();

}  // namespace distrun
