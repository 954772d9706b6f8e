// StackCollector reads the stacks of other processes from outside, without a debugger, debug
// information or help from the program. Frames of Python 3.10 to 3.14 replace the interpreter's.
//
//     StackCollector collector;
//     const std::vector<ProcessStacks> all = collector.collect({4711, 4712}, 3s);
//
// Each process is stopped while its stacks are read (stopped_process.h says what it can notice). If
// something is missing, `problem` says why: ptrace is not permitted, the thread is blocked in the
// kernel, or time is up.
//
// Blocks: until all are read, at most two seconds beyond the limit. Each process has its own reader
// thread, as many at a time as there are cores; a reader that is stuck is abandoned. Meanwhile the
// caller's process must not wait for its children.
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

  // The same for groups of processes, such as those of a rank. The results have the same groups.
  std::vector<std::vector<ProcessStacks>> collect_groups(
      const std::vector<std::vector<pid_t>>& groups, std::chrono::milliseconds time_limit);

  // For looking up other addresses, between calls of collect().
  SymbolNames& names() { return *names_; }

 private:
  std::shared_ptr<SymbolNames> names_;
};

}  // namespace distrun
