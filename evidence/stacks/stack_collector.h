// StackCollector reads the stacks of other processes, from outside: they need no debugger, no
// debug information, and no help from the program. Frames of Python 3.10 to 3.14 take the place of
// the interpreter's own.
//
//     StackCollector collector;
//     const std::vector<ProcessStacks> all = collector.collect({4711, 4712}, 3s);
//
// Each process is stopped while its stacks are read, and then goes on; stopped_process.h has what
// it can notice of that. `problem` says why something is missing: ptrace is not permitted, the
// thread waits in the kernel, time is up.
//
// Blocks: until all are read, at most two seconds longer than the time limit. Each process is read
// in a thread of its own, as many at a time as there are cores. If a thread still reads then, it
// goes on by itself. Meanwhile the caller's process must not wait for its children.
//
// Thread safety: one call at a time.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include <sys/types.h>

#include "evidence/stack.h"
#include "evidence/stacks/symbol_names.h"

namespace distrun {

class StackCollector {
 public:
  StackCollector();

  std::vector<ProcessStacks> collect(const std::vector<pid_t>& pids,
                                     std::chrono::milliseconds time_limit);

  // For other addresses; between two calls of collect().
  SymbolNames& names() { return *names_; }

 private:
  std::shared_ptr<SymbolNames> names_;
};

}  // namespace distrun
