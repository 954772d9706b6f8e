// What a process is doing, as text: the stacks of its threads.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

namespace distrun {

struct Frame {
  std::string function;  // Without parameters; empty if unknown.
  std::string source;    // The source file; empty if unknown.
  int line = 0;          // 0 if unknown.
  std::string module;    // The program or library; empty in Python.

  bool operator==(const Frame&) const = default;
};

struct ThreadStack {
  pid_t tid = -1;
  std::string name;           // From /proc/PID/task/TID/comm.
  std::vector<Frame> frames;  // Outermost first.
  std::string problem;        // Why frames are missing; may be empty.
};

struct ProcessStacks {
  pid_t pid = -1;
  std::string name;                  // When it was found; see proc(5), 'T' is stopped.
  char state = '?';                  // Before it was looked at: see proc(5), as 'T' for stopped.
  std::vector<ThreadStack> threads;  // The main thread first.
  std::string problem;               // Why threads are missing; may be empty.
};

}  // namespace distrun
