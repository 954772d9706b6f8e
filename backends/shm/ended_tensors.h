// Tensors of works that ended on a thread of a backend, until a thread of the program destroys
// them.
//
//     EndedTensors::keep(work->result());   // On a thread of a backend, before it drops the work.
//     EndedTensors::release();              // On a thread of the program, at its next call.
//
// Tensors may be Python's, so whoever destroys the last reference waits for Python's lock. While
// Python ends, it ends each other thread that does so, and with it the process, because the thread
// is in a destructor. They stay until the program's next call of any group of shm.
//
// Thread safety: any thread. Never hold a lock in release().
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace distrun::shm {

class EndedTensors {
 public:
  static void keep(std::vector<at::Tensor> tensors);
  static void release();
};

}  // namespace distrun::shm
