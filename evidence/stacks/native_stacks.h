// The native frames of a stopped process's threads.
//
//     NativeStacks stacks(process, names);
//     std::vector<Frame> frames;
//     const std::string problem = stacks.read(tid, frames, deadline);
//
// libdw unwinds them with the call frame information that compilers write even without -g.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "evidence/stack.h"
#include "evidence/stacks/stopped_process.h"
#include "evidence/stacks/symbol_names.h"

typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;

namespace distrun {

class NativeStacks {
 public:
  // A program or library in the process's memory.
  struct Module {
    std::string file;
    Dwfl_Module* handle = nullptr;
  };

  // The arguments must outlive it.
  NativeStacks(const StoppedProcess& process, SymbolNames& names);
  ~NativeStacks();
  NativeStacks(const NativeStacks&) = delete;
  NativeStacks& operator=(const NativeStacks&) = delete;

  const std::vector<Module>& modules() const { return modules_; }
  // The offset to add to an address in its file. Opens the file.
  static std::uint64_t bias_of(const Module& module);

  // Adds the thread's frames, outermost first. If there are none, returns why.
  std::string read(pid_t tid, std::vector<Frame>& frames,
                   std::chrono::steady_clock::time_point deadline);

 private:
  SymbolNames& names_;
  Dwfl* session_ = nullptr;
  std::vector<Module> modules_;
  std::string problem_;
};

}  // namespace distrun
