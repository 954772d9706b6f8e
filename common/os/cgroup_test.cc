#include "common/os/cgroup.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

class CgroupTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  testing::Folder folder_;
};

TEST_F(CgroupTest, FindsBothVersions) {
  write("/proc/self/cgroup", "garbage\n5:cpu,memory:/job\n4:cpuset:/job\n0::/user/job\n:");
  const auto groups = memory_cgroups(folder_.path());
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].version, 1);
  EXPECT_EQ(groups[0].folder(), folder_.path() + "/sys/fs/cgroup/memory/job");
  EXPECT_EQ(groups[1].version, 2);
  EXPECT_EQ(groups[1].folder(), folder_.path() + "/sys/fs/cgroup/user/job");
  EXPECT_EQ(groups[1].path, "/user/job");
}

TEST_F(CgroupTest, FindsNoneWithoutTheFile) { EXPECT_TRUE(memory_cgroups(folder_.path()).empty()); }

TEST_F(CgroupTest, ReadsTheNumberAfterAName) {
  write("/memory.stat", "low high\nhigh 4\nhighest 5 kB\n");
  EXPECT_EQ(named_number(folder_.path() + "/memory.stat", "high"), 4u);
  EXPECT_EQ(named_number(folder_.path() + "/memory.stat", "highest"), 5u);
  EXPECT_EQ(named_number(folder_.path() + "/memory.stat", "low"), std::nullopt);
  EXPECT_EQ(named_number(folder_.path() + "/none", "high"), std::nullopt);
}

}  // namespace
}  // namespace distrun
