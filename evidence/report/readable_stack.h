// What people need to see of a stack: calls of the program and of the libraries that it uses, not
// of what starts threads, dispatches operators or wraps functions.
//
//     for (const Frame& frame : readable(thread.frames)) text += described(frame) + '\n';
//     // main (train.py:12)
//     // all_reduce (torch/distributed/distributed_c10d.py:2810)
//     // c10d::ProcessGroupGloo::allreduce (libtorch_cpu.so)
//
// Pure.
#pragma once

#include <string>
#include <vector>

#include "evidence/stack.h"

namespace distrun {

std::vector<Frame> readable(const std::vector<Frame>& frames);

// The innermost frame of Python or of the program itself, which says most about a place; the last
// one if there is none.  Requires frames.
const Frame& telling(const std::vector<Frame>& frames);

// "load_batch (train.py:33)", or "epoll_wait (libc.so.6)" without a source file.
std::string described(const Frame& frame);

// Whether the thread belongs to a library and waits for work.
bool is_idle(const std::vector<Frame>& frames);

}  // namespace distrun
