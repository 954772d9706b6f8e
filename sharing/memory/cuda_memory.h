// GPU memory that processes share, by CUDA's IPC handles.  Compiled only if LibTorch is built with
// CUDA.
//
//     share_cuda_memory(storage);
//     nlohmann::json fields = hand_over_cuda(storage, descriptors);
//     c10::Storage same = take_over_cuda(fields, descriptors);      // In another process.
//
// The first process owns the memory; it must live as long as others use it.  The memory returns to
// its allocator when no process uses it any more: a HolderPresence shows who does, and ends even if
// its process is killed.  Memory that the owner drops is kept until then; each call that shares or
// drops memory checks it again.
//
// Before the memory is handed over, the owner waits for its current stream; before another process
// drops it, that process waits for its own.
//
// Refused, by CUDA: returning memory to the process that owns it.  A process cannot hand on memory
// of another one: hand_over_cuda() throws c10::NotImplementedError.
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

// True for memory that this process has shared, or taken over from another.
bool is_cuda_memory_shared(const c10::StorageImpl& storage);

// Does nothing if it is already shared.
void share_cuda_memory(c10::StorageImpl& storage);

// [descriptor, bytes, device, place, handle, offset] of a shared storage.
nlohmann::json hand_over_cuda(const c10::StorageImpl& storage, MessageDescriptors& descriptors);

c10::Storage take_over_cuda(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal
