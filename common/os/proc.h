// The processes of this machine, as /proc shows them.
//
//     for (const pid_t pid : all_processes()) … process_name(pid) …
//     const std::string stat = proc_file(4711, "stat");
//
// A process may end while it is looked at: then there is nothing.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace distrun {

// In ascending order.  Where /proc cannot be read to its end, those that were found.
std::vector<pid_t> all_processes();

// The whole of /proc/PID/NAME; empty where it cannot be read.
std::string proc_file(pid_t pid, const char* name);

// As in /proc/PID/comm; empty where it cannot be read.
std::string process_name(pid_t pid);

}  // namespace distrun
