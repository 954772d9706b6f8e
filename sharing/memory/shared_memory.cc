#include "sharing/memory/shared_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/MapAllocator.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "distrun/result.h"
#include "sharing/memory/memory_file.h"

namespace distrun::internal {

namespace {

constexpr int kMapFlags = at::ALLOCATOR_MAPPED_SHAREDMEM | at::ALLOCATOR_MAPPED_NOCREATE |
                          at::ALLOCATOR_MAPPED_KEEPFD | at::ALLOCATOR_MAPPED_FROMFD;

// At least one byte, because an empty file cannot be mapped.
std::size_t mapped_bytes(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

at::DataPtr map(UniqueFd fd, std::size_t bytes) {
  at::DataPtr memory = at::MapAllocator::makeDataPtr(at::WITH_FD, "", fd.get(), kMapFlags,
                                                     mapped_bytes(bytes), nullptr);
  fd.release();
  return memory;
}

bool cannot_shrink(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0;
}

}  // namespace

at::DataPtr make_shared_memory(std::size_t bytes) {
  const std::string doing = "share " + std::to_string(bytes) + " bytes";
  UniqueFd fd = make_memory_file("distrun tensor", mapped_bytes(bytes), doing);
  TORCH_CHECK(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, doing,
              ": ", Error::from_errno("seal the memory").message);
  return map(std::move(fd), bytes);
}

at::DataPtr map_shared_memory(UniqueFd fd, std::size_t bytes) {
  struct stat facts {};
  TORCH_CHECK_VALUE(::fstat(fd.get(), &facts) == 0 && cannot_shrink(fd.get()), "map ", bytes,
                    " bytes of a shared tensor: descriptor ", fd.get(),
                    " is not of memory with a fixed size");
  TORCH_CHECK_VALUE(static_cast<std::size_t>(facts.st_size) >= mapped_bytes(bytes), "map ", bytes,
                    " bytes of a shared tensor: its memory has only ", facts.st_size, " bytes");
  return map(std::move(fd), bytes);
}

int shared_memory_of(const c10::StorageImpl& storage) {
  const auto* memory = at::MapAllocator::fromDataPtr(storage.data_ptr());
  if (memory == nullptr || memory->fd() < 0 || !cannot_shrink(memory->fd())) return -1;
  return memory->fd();
}

}  // namespace distrun::internal
