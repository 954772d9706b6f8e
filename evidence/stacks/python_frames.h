// PythonFrames finds the interpreter in a stopped process, and replaces the interpreter's own
// frames with Python's.
//
//     const PythonFrames python(process, native.modules(), names);
//     python.put_into(frames, thread.thread_pointer);
//     // main (train.py:12), all_reduce (distributed_c10d.py:2810), c10d::…::allreduce, …
//
// Does nothing if the process has no Python, or an unknown version.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "evidence/stack.h"
#include "evidence/stacks/native_stacks.h"
#include "evidence/stacks/stopped_process.h"
#include "evidence/stacks/symbol_names.h"

namespace distrun {

class PythonFrames {
 public:
  PythonFrames(const StoppedProcess& process, const std::vector<NativeStacks::Module>& modules,
               SymbolNames& names);

  void put_into(std::vector<Frame>& frames, std::uint64_t thread_pointer) const;

 private:
  std::map<std::uint64_t, std::vector<Frame>> by_thread_;
};

// Replaces all native frames up to the last one that interprets Python with `python`; if none has a
// name that says so, up to the last one of the interpreter. Also drops the interpreter's own calls
// after it, up to a function of another library. Pure.
void merge_python(std::vector<Frame>& frames, const std::vector<Frame>& python);

}  // namespace distrun
