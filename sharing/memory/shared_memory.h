// Shared memory as the data of a storage: a memfd of a fixed size, so that mapped pages stay valid.
//
//     at::DataPtr memory = make_shared_memory(bytes);
//     int descriptor = shared_memory_of(storage);    // To be sent; the storage keeps it.
//     at::DataPtr same = map_shared_memory(std::move(received), bytes);
//
// The memory lives as long as a process maps it or has its descriptor.
//
// It uses at::MapAllocator (ATen/MapAllocator.h), as Python's torch.multiprocessing does.
#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include "common/os/unique_fd.h"

namespace distrun::internal {

// Allocates all memory now, filled with zeros; zero bytes are valid. Throws c10::Error if memory or
// descriptors run out.
at::DataPtr make_shared_memory(std::size_t bytes);

// Throws c10::ValueError if `fd` is not such memory of at least `bytes`.
at::DataPtr map_shared_memory(UniqueFd fd, std::size_t bytes);

// The descriptor of a storage in shared memory, else -1.
int shared_memory_of(const c10::StorageImpl& storage);

}  // namespace distrun::internal
