// The part of a stack that matters to users: calls of the program and its libraries, without frames
// that start threads, dispatch operators or wrap functions.
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

// "load_batch (train.py:33)", or "epoll_wait (libc.so.6)" without a source file.
std::string described(const Frame& frame);

// The function alone: "all_reduce".
std::string name_of(const Frame& frame);

// Whether the frame is in the C library.
bool is_of_libc(const Frame& frame);

// Whether the frame is in Python itself or in an installed package.
bool is_of_package(const Frame& frame);

// Whether this is a library's own thread, waiting for work.
bool is_idle(const std::vector<Frame>& frames);

}  // namespace distrun
