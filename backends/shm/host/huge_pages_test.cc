#include "backends/shm/host/huge_pages.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backends/shm/host/rank_memory.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {
namespace {

// Of two huge pages, and of a page that is in neither.
constexpr std::size_t kTwoAndAPage = 2 * kHugeBytes + kPageBytes;

UniqueFd file_with_memory(std::size_t bytes) {
  UniqueFd file(::memfd_create("huge pages", MFD_CLOEXEC));
  EXPECT_EQ(::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)), 0) << std::strerror(errno);
  return file;
}

std::uintptr_t offset_in_huge_page(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kHugeBytes;
}

// Of the whole address space, in pages. Allocates nothing.
long mapped_pages() {
  std::array<char, 128> text{};
  const UniqueFd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  EXPECT_GT(::read(file.get(), text.data(), text.size() - 1), 0);
  return std::strtol(text.data(), nullptr, 10);
}

// How much of the mapping at `data` huge pages of shared memory map, in KiB: from
// /proc/self/smaps.
long huge_kibibytes_at(const void* data) {
  std::ostringstream address;
  address << std::hex << reinterpret_cast<std::uintptr_t>(data) << '-';
  std::ifstream file("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(address.str())) is_there = true;
    if (is_there && line.starts_with("ShmemPmdMapped:")) return std::stol(line.substr(15));
  }
  return -1;
}

// Why the kernel does not collect pages into a huge one, or empty.
std::string why_no_huge_pages() {
  const UniqueFd file = file_with_memory(kHugeBytes);
  void* const room = ::mmap(nullptr, 2 * kHugeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return "mmap failed";
  auto* const aligned =
      static_cast<std::byte*>(room) + (kHugeBytes - offset_in_huge_page(room)) % kHugeBytes;
  ::mmap(aligned, kHugeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0);
  constexpr int kMadvCollapse = 25;
  const bool is_done = ::madvise(aligned, kHugeBytes, kMadvCollapse) == 0;
  std::string why = is_done ? "" : std::string("MADV_COLLAPSE: ") + std::strerror(errno);
  ::munmap(room, 2 * kHugeBytes);
  return why;
}

TEST(HugePagesTest, LargeMappingsBeginAtAHugePage) {
  const UniqueFd file = file_with_memory(kTwoAndAPage + kHugeBytes);
  for (const std::size_t bytes : {kHugeBytes, kTwoAndAPage}) {
    void* const data = map_for_huge_pages(file.get(), kHugeBytes, bytes);
    ASSERT_NE(data, MAP_FAILED) << std::strerror(errno);
    EXPECT_EQ(offset_in_huge_page(data), 0);
    std::memset(data, 7, bytes);
    char last = 0;
    EXPECT_EQ(::pread(file.get(), &last, 1, static_cast<off_t>(kHugeBytes + bytes - 1)), 1);
    EXPECT_EQ(last, 7);
    ::munmap(data, bytes);
  }
}

TEST(HugePagesTest, MapsNothingElse) {
  const UniqueFd file = file_with_memory(kTwoAndAPage);
  for (const std::size_t bytes : {kPageBytes, kHugeBytes, kTwoAndAPage}) {
    const long before = mapped_pages();
    void* const data = map_for_huge_pages(file.get(), 0, bytes);
    const long after = mapped_pages();
    EXPECT_EQ(static_cast<std::size_t>(after - before) * kPageBytes, bytes);
    ::munmap(data, bytes);
  }
}

TEST(HugePagesTest, AMappingThatFailsLeavesNothing) {
  const long before = mapped_pages();
  void* const data = map_for_huge_pages(-1, 0, kTwoAndAPage);
  const int error_number = errno;
  const long after = mapped_pages();
  EXPECT_EQ(data, MAP_FAILED);
  EXPECT_EQ(error_number, EBADF);
  EXPECT_EQ(after, before);
}

TEST(HugePagesTest, CollectsPagesForEachMapping) {
  if (const std::string why = why_no_huge_pages(); !why.empty()) GTEST_SKIP() << why;
  const UniqueFd file = file_with_memory(kTwoAndAPage);
  void* const data = map_for_huge_pages(file.get(), 0, kTwoAndAPage);
  std::memset(data, 7, kTwoAndAPage);
  use_huge_pages(data, kTwoAndAPage);
  EXPECT_EQ(huge_kibibytes_at(data), 2 * kHugeBytes / 1024);
  auto* const theirs = static_cast<char*>(map_for_huge_pages(file.get(), 0, kTwoAndAPage));
  EXPECT_EQ(theirs[kTwoAndAPage - 1] + theirs[0], 14);
  EXPECT_EQ(theirs[kHugeBytes], 7);
  EXPECT_EQ(huge_kibibytes_at(theirs), 2 * kHugeBytes / 1024);
  ::munmap(data, kTwoAndAPage);
  ::munmap(theirs, kTwoAndAPage);
}

TEST(HugePagesTest, MemoryThatContainsNoHugePageStays) {
  const UniqueFd file = file_with_memory(kPageBytes);
  void* const data = map_for_huge_pages(file.get(), 0, kPageBytes);
  std::memset(data, 7, kPageBytes);
  use_huge_pages(data, kPageBytes);
  EXPECT_EQ(static_cast<char*>(data)[kPageBytes - 1], 7);
  ::munmap(data, kPageBytes);
}

}  // namespace
}  // namespace distrun::shm
