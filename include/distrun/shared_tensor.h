// share_memory_() moves a tensor into memory that several processes can use.  Each process then
// sees the values that another process writes.
//
//     at::Tensor weights = at::randn({1024, 1024});
//     share_memory_(weights);                       // Its storage is now in shared memory.
//
// TensorQueue and spawn() send such tensors to other processes.  The tensors may have any dtype
// that is not quantized, any sizes, any strides (including those of expand()), and any storage
// offset.  If one message contains two views of one storage, the receiver's tensors also share one
// storage.  If a tensor is sent in two messages, the receiver gets two storages that use the same
// memory.  A leaf that requires a gradient also requires a gradient at the receiver, but its grad()
// is not sent.  A tensor that requires a gradient and is not a leaf cannot be sent
// (c10::ValueError).  Send the result of detach() instead.
//
// Shared memory is anonymous (memfd_create).  It has no name in /dev/shm, and the kernel frees it
// when no process uses it.  Shared storage cannot grow.  If resize_() needs a larger storage, it
// throws a c10::Error.
//
// If distrun was built with CUDA, GPU tensors are shared through CUDA IPC.  The process that
// created a GPU tensor must outlive the processes that use the tensor.  If the creator puts the
// tensor into a queue, the creator itself cannot take the tensor out.  Other processes cannot send
// the tensor (c10::NotImplementedError), but they can send a clone().  A forked process cannot use
// CUDA if its parent has used CUDA.
//
// PyTorch source: torch/_tensor.py (share_memory_), torch/multiprocessing/reductions.py.
#pragma once

#include <ATen/core/Tensor.h>

namespace distrun {

// Moves the storage of a CPU tensor into shared memory.  All views of this storage then use the
// shared memory.  Returns the tensor.  Pointers to the tensor's data become invalid, unless the
// storage was shared already.  The memory of a GPU tensor does not move.
//
// Throws: c10::ValueError if the tensor is undefined or a meta tensor.
// Also throws c10::NotImplementedError if the tensor is sparse, nested or quantized, if it is on
// another kind of device, or if its storage maps a file.
// Also throws c10::Error if not enough memory or no file descriptor is left.  For storage of 16 MiB
// or more, share_memory_() first checks how much memory the machine and cgroup v2 still allow.  It
// does not check limits of cgroup v1.  The kernel may kill a process that exceeds such a limit.
// Thread safety: no other thread may use the storage during the call.
// Cost: a CPU storage is copied once.  The old and the new memory both exist until the copy is
// complete.  A GPU storage is not copied.  Each shared storage needs one file descriptor.  `ulimit
// -n` limits their number.  If the storage is shared already, the call costs nothing.
at::Tensor share_memory_(const at::Tensor& tensor);

// Returns whether the tensor's storage is shared.
bool is_shared(const at::Tensor& tensor);

}  // namespace distrun
