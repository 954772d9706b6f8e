// GPU memory that processes share through CUDA's IPC handles. Compiled only if LibTorch is built
// with CUDA.
//
//     share_cuda_memory(storage);
//     nlohmann::json fields = hand_over_cuda(storage, descriptors);
//     c10::Storage same = take_over_cuda(fields, descriptors);      // In another process.
//
// The process that allocated the memory owns it, and must live as long as others use it. The memory
// returns to its allocator when no process uses it any more: a HolderPresence shows who does, and
// ends with its process. Until then, memory that the owner drops is kept; each call that shares or
// drops memory checks it again.
//
// The owner waits for its current stream before it hands memory over; other processes wait for
// theirs before they drop it.
//
// CUDA does not allow returning memory to its owner, and a process cannot pass on another one's
// memory: hand_over_cuda() throws c10::NotImplementedError.
//
// Like torch/csrc/StorageSharing.cpp and torch/csrc/CudaIPCTypes.cpp, where a killed process keeps
// the memory forever.
#pragma once

#include <vector>

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <nlohmann/json_fwd.hpp>

#include "common/os/unique_fd.h"
#include "sharing/memory/tensor_fields.h"

namespace distrun::internal {

// True for memory that this process has shared or received.
bool is_cuda_memory_shared(const c10::StorageImpl& storage);

// Does nothing if it is already shared.
void share_cuda_memory(c10::StorageImpl& storage);

// [descriptor, bytes, device, place, handle, offset] of a shared storage.
nlohmann::json hand_over_cuda(const c10::StorageImpl& storage, MessageDescriptors& descriptors);

c10::Storage take_over_cuda(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal
