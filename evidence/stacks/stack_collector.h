// StackCollector reads the stacks of other processes, from outside: they need no debugger, no
// debug information, and no help from the program. Frames of Python 3.10 to 3.14 take the place of
// the interpreter's own.
//
//     StackCollector collector;
//     const std::vector<ProcessStacks> all = collector.collect({4711, 4712}, 3s);
//
// Each process is stopped for a few milliseconds, then goes on as before. `problem` says why
// something is missing: ptrace is not permitted, the thread waits in the kernel, time is up.
//
// Blocks: until all are read, or until the time limit plus the time for one process. Runs in a
// thread that ends with the call. Meanwhile the caller's process must not wait for its children.
// Thread safety: one call at a time.
#pragma once

#include <chrono>
#include <vector>

#include <sys/types.h>

#include "evidence/stack.h"
#include "evidence/stacks/symbol_names.h"

namespace distrun {

class StackCollector {
 public:
  std::vector<ProcessStacks> collect(const std::vector<pid_t>& pids,
                                     std::chrono::milliseconds time_limit);

  SymbolNames& names() { return names_; }

 private:
  SymbolNames names_;
};

}  // namespace distrun
