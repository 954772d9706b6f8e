// The heap of a program's threads. The operators new and delete of the test program (heap.cc) take
// what a thread allocates from it, and delete frees nothing there. It lives until the execution
// ends, because many executions end in the middle.
//
//     clear_heap();  // Before an execution.
//     in_program = true;
//     act();         // Allocates from the heap.
//     in_program = false;
#pragma once

#include <utility>

namespace distrun::shm::model {

// A thread of the program runs, and is not in a hook.
extern bool in_program;

// A hook that a thread of the program calls, until the end of the block.
class InHook {
 public:
  InHook() : was_(std::exchange(in_program, false)) {}
  ~InHook() { in_program = was_; }
  InHook(const InHook&) = delete;
  InHook& operator=(const InHook&) = delete;

 private:
  const bool was_;
};

void clear_heap();

}  // namespace distrun::shm::model
