// Huge pages for memory that processes share. Large tensors in them are filled and reduced faster,
// because the processor looks up fewer addresses.
//
//     void* data = map_for_huge_pages(file, begin, bytes);
//     … fallocate(2) …
//     use_huge_pages(data, bytes);
//
// Linux collects pages into huge ones since 6.1 (MADV_COLLAPSE), whatever
// /sys/kernel/mm/transparent_hugepage/shmem_enabled says, unless that is "deny". Thread safety: any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace distrun::shm {

// On x86-64, and on Arm with pages of 4 KiB.
inline constexpr std::size_t kHugeBytes = std::size_t{2} << 20;

// mmap(2) of a part of a shared file, to read and write: MAP_FAILED and errno on failure. `bytes`
// is a multiple of a page. The address is a multiple of kHugeBytes if at least as much is mapped.
// For huge pages, `begin` must be one, too.
void* map_for_huge_pages(int file, std::uint64_t begin, std::size_t bytes);

// Collects the pages of each huge page that is within these bytes of the mapping, for all processes
// that map them so. The contents stay. Has no effect if the kernel cannot do that, or not now.
// Usually takes less time than touching the pages does later without it. Gives up after about a
// second, such as if the memory is fragmented.
void use_huge_pages(void* data, std::size_t bytes);

}  // namespace distrun::shm
