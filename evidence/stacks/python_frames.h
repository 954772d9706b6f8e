// PythonFrames finds the interpreter in a stopped process, and puts the frames of Python in the
// place of the interpreter's own.
//
//     const PythonFrames python(process, native.modules(), names);
//     python.put_into(frames, thread.thread_pointer);
//     // main (train.py:12), all_reduce (distributed_c10d.py:2810), c10d::…::allreduce, …
//
// Does nothing for a process without Python, or with an unknown version of it.
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

// Replaces all native frames up to the last one that interprets Python by `python`. The
// interpreter's own calls after it, up to a function of another library, are dropped too. Pure.
void merge_python(std::vector<Frame>& frames, const std::vector<Frame>& python);

}  // namespace distrun
