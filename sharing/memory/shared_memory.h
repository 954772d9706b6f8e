// Memory that processes share, as the data of a storage: a memfd that cannot be resized any more,
// so that what is mapped stays there.
//
//     at::DataPtr memory = make_shared_memory(bytes);
//     int descriptor = shared_memory_of(storage);    // To be sent; it stays the storage's.
//     at::DataPtr same = map_shared_memory(std::move(received), bytes);
//
// The memory lives as long as anybody maps it or has its descriptor.
//
// It is at::MapAllocator's (ATen/MapAllocator.h), by which Python's torch.multiprocessing knows it,
// too.
#pragma once

#include <cstddef>

#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include "common/os/unique_fd.h"

namespace distrun::internal {

// All of it is taken now and holds zeros; zero bytes are memory of their own as well.  Throws
// c10::Error where there is no memory, or no descriptor.
at::DataPtr make_shared_memory(std::size_t bytes);

// Throws c10::ValueError where `fd` is not of such memory with at least `bytes`.
at::DataPtr map_shared_memory(UniqueFd fd, std::size_t bytes);

// The descriptor of a storage in such memory, or -1.
int shared_memory_of(const c10::StorageImpl& storage);

}  // namespace distrun::internal
