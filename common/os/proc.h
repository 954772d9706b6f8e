// The processes of this machine, from /proc.
//
//     for (const pid_t pid : all_processes()) … process_name(pid) …
//     const std::string stat = proc_file(4711, "stat");
//
// If a process ends meanwhile, its results are empty.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace distrun {

// In ascending order. If /proc cannot be read to its end, those found until then.
std::vector<pid_t> all_processes();

// All of /proc/PID/NAME; empty if it cannot be read.
std::string proc_file(pid_t pid, const char* name);

// From /proc/PID/comm; empty if it cannot be read.
std::string process_name(pid_t pid);

}  // namespace distrun
