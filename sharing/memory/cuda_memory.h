// Memory of a GPU that processes share, by CUDA's IPC handles.  Compiled where LibTorch is a build
// with CUDA, and only there.
//
//     share_cuda_memory(storage);
//     nlohmann::json fields = hand_over_cuda(storage, descriptors);
//     c10::Storage same = take_over_cuda(fields, descriptors);      // In another process.
//
// The memory is the first process's, and goes back to its allocator when neither that process nor
// another one uses it: those that do are known by a HolderPresence, which ends with a process that
// is killed.  What the first process has dropped earlier is kept until then, and looked at whenever
// memory is shared or dropped.  It has to live as long as the others use its memory.
//
// What its current stream has been given is done before the memory is handed over, and what the
// other's has been given before that lets the memory go.
//
// Refused, by CUDA: memory that comes back to the process that it is from.  Memory from another
// process is shared, but cannot be handed on: hand_over_cuda() throws c10::NotImplementedError.
//
// As torch/csrc/StorageSharing.cpp and torch/csrc/CudaIPCTypes.cpp, where a process that is killed
// keeps the memory for ever.
#pragma once

#include <vector>

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <nlohmann/json_fwd.hpp>

#include "common/os/unique_fd.h"
#include "sharing/memory/tensor_fields.h"

namespace distrun::internal {

// Given out by this process, or taken over from another.
bool is_cuda_memory_shared(const c10::StorageImpl& storage);

// Nothing where it is shared already.
void share_cuda_memory(c10::StorageImpl& storage);

// [descriptor, bytes, device, place, handle, offset], of a storage that is shared.
nlohmann::json hand_over_cuda(const c10::StorageImpl& storage, MessageDescriptors& descriptors);

c10::Storage take_over_cuda(const nlohmann::json& fields, std::vector<UniqueFd>& descriptors);

}  // namespace distrun::internal
