#include "backends/shm/host/huge_pages.h"

#include <cerrno>
#include <chrono>

#include <sys/mman.h>

namespace distrun::shm {

namespace {

#ifndef MADV_COLLAPSE
constexpr int MADV_COLLAPSE = 25;  // Of Linux 6.1; glibc names it since 2.37.
#endif
constexpr std::chrono::seconds kCollectMax(1);

void unmap(std::byte* begin, std::byte* end) {
  if (begin < end) ::munmap(begin, static_cast<std::size_t>(end - begin));
}

}  // namespace

void* map_for_huge_pages(int file, std::uint64_t begin, std::size_t bytes) {
  const auto map = [&](void* place, int flags) {
    return ::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, file,
                  static_cast<off_t>(begin));
  };
  if (bytes < kHugeBytes) return map(nullptr, 0);
  const std::size_t room_bytes = bytes + kHugeBytes;
  void* const room =
      ::mmap(nullptr, room_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return map(nullptr, 0);
  auto* const first = static_cast<std::byte*>(room);
  std::byte* const end = first + room_bytes;
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(room) % kHugeBytes;
  std::byte* const aligned = first + (kHugeBytes - offset) % kHugeBytes;
  void* const data = map(aligned, MAP_FIXED);
  if (data == MAP_FAILED) {
    const int error_number = errno;
    unmap(first, end);
    errno = error_number;
    return data;
  }
  unmap(first, aligned);
  unmap(aligned + bytes, end);
  return data;
}

void use_huge_pages(void* data, std::size_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + kCollectMax;
  auto* const first = static_cast<std::byte*>(data);
  for (std::size_t done = 0; bytes - done >= kHugeBytes; done += kHugeBytes) {
    // Another part may still succeed if the kernel was only busy.
    const bool is_done = ::madvise(first + done, kHugeBytes, MADV_COLLAPSE) == 0 ||
                         errno == EAGAIN || errno == EBUSY;
    if (!is_done || std::chrono::steady_clock::now() >= deadline) return;
  }
}

}  // namespace distrun::shm
