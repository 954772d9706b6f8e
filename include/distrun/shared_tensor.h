// Tensors in memory that processes share: what one writes, the others see.
//
//     at::Tensor weights = at::randn({1024, 1024});
//     share_memory_(weights);                       // Its storage is in shared memory now.
//
// TensorQueue and spawn() hand tensors over.  Any dtype, sizes, strides (those of expand() too) and
// storage offset; views of one storage that go together share a storage again.  A leaf that
// requires a gradient is one in the other process as well; gradients stay where they are.
//
// Refused with c10::ValueError: a tensor that requires a gradient and is no leaf (detach() it), one
// that is undefined or on the meta device.  With c10::NotImplementedError: sparse, nested and
// quantized ones, other devices, storage that maps a file.
//
// Where distrun is built with CUDA, tensors on a GPU are shared by CUDA's IPC handles: the process
// that has made one has to live as long as others use it, cannot take it back from a queue, and it
// alone can hand it over (else c10::NotImplementedError: hand its clone() over).  A forked process
// can use CUDA only where the parent has not.
//
// A storage that is shared cannot be resized: resize_() to more than it holds throws a c10::Error.
//
// Memory is anonymous (memfd_create): no name in /dev/shm, and nothing is left when the last
// process that maps it is gone, however it ends.  It is taken when it is shared; where there is
// none left (of the machine, or of a cgroup v2; limits of a cgroup v1 are not seen), or no
// descriptor (each storage holds one; `ulimit -n`), a c10::Error says so.
//
// A tensor that is handed over twice, in two messages, is two storages of the same memory.
//
// Threads: as tensors.  Sharing moves the storage: nobody else may use it meanwhile, and pointers
// to its data are no longer valid.
//
// As Tensor.share_memory_() in torch/_tensor.py, and what torch/multiprocessing/reductions.py
// sends.
#pragma once

#include <ATen/core/Tensor.h>

namespace distrun {

// Moves the storage of a CPU tensor into shared memory, with all that are views of it, and returns
// the tensor (one on a GPU stays where it is).  One copy; nothing where it is shared already.
at::Tensor share_memory_(const at::Tensor& tensor);

bool is_shared(const at::Tensor& tensor);

}  // namespace distrun
