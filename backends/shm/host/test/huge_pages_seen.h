// Whether memory is in huge pages, for tests.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include <sys/mman.h>

#include "backends/shm/host/huge_pages.h"
#include "common/os/unique_fd.h"

namespace distrun::shm::test {

// How much of the mapping that starts at `data` is in huge pages of shared memory: from
// /proc/self/smaps; -1 if there is no such mapping.
inline long huge_bytes_at(const void* data) {
  std::ostringstream address;
  address << std::hex << reinterpret_cast<std::uintptr_t>(data) << '-';
  std::ifstream file("/proc/self/smaps");
  bool is_there = false;
  constexpr std::string_view kHead = "ShmemPmdMapped:";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(address.str())) is_there = true;
    if (is_there && line.starts_with(kHead)) return std::stol(line.substr(kHead.size())) * 1024;
  }
  return -1;
}

// Why the kernel does not collect pages into a huge one, or empty. Some emulators say that it did.
inline std::string why_no_huge_pages() {
  constexpr int kMadvCollapse = 25;
  const UniqueFd file(::memfd_create("huge pages", MFD_CLOEXEC));
  void* const room = ::mmap(nullptr, 2 * kHugeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return "no memory";
  if (::ftruncate(file.get(), kHugeBytes) != 0) {
    ::munmap(room, 2 * kHugeBytes);
    return "no file";
  }
  const auto offset = reinterpret_cast<std::uintptr_t>(room) % kHugeBytes;
  auto* const aligned = static_cast<char*>(room) + (kHugeBytes - offset) % kHugeBytes;
  ::mmap(aligned, kHugeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0);
  *aligned = 1;
  std::string why;
  if (::madvise(aligned, kHugeBytes, kMadvCollapse) != 0) {
    why = std::string("MADV_COLLAPSE: ") + std::strerror(errno);
  } else if (huge_bytes_at(aligned) != static_cast<long>(kHugeBytes)) {
    why = "MADV_COLLAPSE has no effect here";
  }
  ::munmap(room, 2 * kHugeBytes);
  return why;
}

}  // namespace distrun::shm::test
