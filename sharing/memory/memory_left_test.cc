#include "sharing/memory/memory_left.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/test/folder.h"
#include "common/units.h"

namespace distrun::internal {
namespace {

// A folder with fake files of the kernel.
class MemoryLeftTest : public ::testing::Test {
 protected:
  MemoryLeftTest() {
    write("/proc/meminfo",
          "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable: 500 kB\nSwapFree: 20 kB\n");
    write("/proc/self/cgroup", "1:cpu:/\n0::/a/b\n");
  }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  void write_group(const std::string& group, std::size_t max, std::size_t current) const {
    write("/sys/fs/cgroup" + group + "/memory.max", std::to_string(max * kKiB) + "\n");
    write("/sys/fs/cgroup" + group + "/memory.current", std::to_string(current * kKiB) + "\n");
  }

  std::size_t kibibytes_left() const { return memory_left(root_).value() / kKiB; }

  const testing::Folder own_;
  const std::string root_ = own_.path();
};

TEST_F(MemoryLeftTest, IsTheMachinesMemoryWithoutGroups) {
  EXPECT_EQ(kibibytes_left(), 520u);
  EXPECT_EQ(memory_left(root_ + "/none"), std::nullopt);
}

TEST_F(MemoryLeftTest, IsTheMemoryOfTheTightestGroup) {
  write_group("/a/b", 400, 100);
  EXPECT_EQ(kibibytes_left(), 320u);
  write_group("/a", 300, 100);
  EXPECT_EQ(kibibytes_left(), 220u);
  write_group("", 200, 100);
  EXPECT_EQ(kibibytes_left(), 120u);
  write_group("/a/b", 90, 100);
  EXPECT_EQ(kibibytes_left(), 20u);
  write_group("/other", 1, 1);
  EXPECT_EQ(kibibytes_left(), 20u);
}

TEST_F(MemoryLeftTest, IgnoresAGroupWithoutALimit) {
  write_group("/a/b", 400, 100);
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(kibibytes_left(), 520u);
}

TEST_F(MemoryLeftTest, CountsPageCacheAndTheGroupsSwap) {
  write_group("/a/b", 400, 390);
  write("/sys/fs/cgroup/a/b/memory.stat",
        "anon 1000\nactive_file 102400\nshmem 5\ninactive_file 204800\n");
  EXPECT_EQ(kibibytes_left(), 330u);
  write("/sys/fs/cgroup/a/b/memory.swap.max", "0\n");
  write("/sys/fs/cgroup/a/b/memory.swap.current", "0\n");
  EXPECT_EQ(kibibytes_left(), 310u);
}

}  // namespace
}  // namespace distrun::internal
