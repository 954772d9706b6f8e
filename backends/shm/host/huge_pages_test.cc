#include "backends/shm/host/huge_pages.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/shm/host/rank_memory.h"
#include "backends/shm/host/test/huge_pages_seen.h"
#include "common/os/unique_fd.h"

namespace distrun::shm {
namespace {

// Two huge pages, and a page that is in neither.
constexpr std::size_t kTwoAndAPage = 2 * kHugeBytes + kPageBytes;

UniqueFd file_with_memory(std::size_t bytes) {
  UniqueFd file(::memfd_create("huge pages", MFD_CLOEXEC));
  EXPECT_EQ(::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)), 0) << std::strerror(errno);
  return file;
}

// Of the whole address space. Allocates nothing.
long mapped_bytes() {
  std::array<char, 128> text{};
  const UniqueFd file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (::read(file.get(), text.data(), text.size() - 1) <= 0) return 0;
  return std::strtol(text.data(), nullptr, 10) * static_cast<long>(kPageBytes);
}

// In a child of fork(), which has no other threads.
bool is_true_in_child(const std::function<bool()>& act) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(act() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

// A kernel that is busy may leave out some of the pages.
void use_huge_pages_until(long expected, void* data, std::size_t bytes) {
  for (int tries = 0; tries < 100 && test::huge_bytes_at(data) != expected; ++tries) {
    use_huge_pages(data, bytes);
  }
  EXPECT_EQ(test::huge_bytes_at(data), expected);
}

TEST(HugePagesTest, LargeMappingsBeginAtAHugePage) {
  const UniqueFd file = file_with_memory(kTwoAndAPage + kHugeBytes);
  for (const std::size_t bytes : {kHugeBytes, kTwoAndAPage}) {
    void* const data = map_for_huge_pages(file.get(), kHugeBytes, bytes);
    ASSERT_NE(data, MAP_FAILED) << std::strerror(errno);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kHugeBytes, 0);
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
    EXPECT_TRUE(is_true_in_child([&] {
      const long before = mapped_bytes();
      return map_for_huge_pages(file.get(), 0, bytes) != MAP_FAILED &&
             mapped_bytes() - before == static_cast<long>(bytes);
    })) << bytes;
  }
}

TEST(HugePagesTest, AMappingThatFailsLeavesNothing) {
  EXPECT_TRUE(is_true_in_child([] {
    const long before = mapped_bytes();
    return map_for_huge_pages(-1, 0, kTwoAndAPage) == MAP_FAILED && errno == EBADF &&
           mapped_bytes() == before;
  }));
}

TEST(HugePagesTest, CollectsPagesForEachMapping) {
  if (const auto why = test::why_no_huge_pages(); !why.empty()) GTEST_SKIP() << why;
  const UniqueFd file = file_with_memory(kTwoAndAPage);
  void* const data = map_for_huge_pages(file.get(), 0, kTwoAndAPage);
  std::memset(data, 7, kTwoAndAPage);
  use_huge_pages_until(2 * kHugeBytes, data, kTwoAndAPage);
  auto* const theirs = static_cast<char*>(map_for_huge_pages(file.get(), 0, kTwoAndAPage));
  EXPECT_EQ(theirs[0] + theirs[kHugeBytes] + theirs[kTwoAndAPage - 1], 3 * 7);
  EXPECT_EQ(test::huge_bytes_at(theirs), 2 * kHugeBytes);
  ::munmap(data, kTwoAndAPage);
  ::munmap(theirs, kTwoAndAPage);
}

TEST(HugePagesTest, CollectsOnlyWhatIsGiven) {
  if (const auto why = test::why_no_huge_pages(); !why.empty()) GTEST_SKIP() << why;
  const UniqueFd file = file_with_memory(kTwoAndAPage);
  void* const data = map_for_huge_pages(file.get(), 0, kTwoAndAPage);
  std::memset(data, 7, kTwoAndAPage);
  use_huge_pages_until(kHugeBytes, data, 2 * kHugeBytes - kPageBytes);
  ::munmap(data, kTwoAndAPage);
}

}  // namespace
}  // namespace distrun::shm
