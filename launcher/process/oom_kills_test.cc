#include "launcher/process/oom_kills.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/test/folder.h"

namespace distrun {
namespace {

// A folder with fake files of /proc and /sys.
class OomKillsTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const testing::Folder own_;
  const std::string root_ = own_.path();
};

TEST_F(OomKillsTest, ReadsCountersOfCgroupV2AndMachine) {
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/job/memory.events", "low 0\noom 4\noom_kill 3\noom_group_kill 0\n");
  put("/proc/vmstat", "nr_free_pages 7\noom_kill 12\n");
  const auto kills = OomKills::read(root_);
  EXPECT_EQ(kills.cgroup, 3u);
  EXPECT_EQ(kills.machine, 12u);
}

TEST_F(OomKillsTest, ReadsCounterOfCgroupV1) {
  put("/proc/self/cgroup", "5:cpu,memory:/job\n0::/\n");
  put("/sys/fs/cgroup/memory/job/memory.oom_control", "under_oom 0\noom_kill 2\n");
  EXPECT_EQ(OomKills::read(root_).cgroup, 2u);
}

TEST_F(OomKillsTest, LeavesUnknownCountersEmpty) {
  EXPECT_EQ(OomKills::read(root_).cgroup, std::nullopt);
  put("/proc/self/cgroup", "garbage\n0::/\n:");
  put("/proc/vmstat", "oom_kill many\n");
  const auto kills = OomKills::read(root_);
  EXPECT_EQ(kills.cgroup, std::nullopt);
  EXPECT_EQ(kills.machine, std::nullopt);
}

TEST(OomEvidenceTest, RequiresAGrowingCounter) {
  EXPECT_EQ(oom_evidence({1, 5}, {2, 6}),
            "probably out of memory: the kernel's OOM killer killed 1 process of this cgroup");
  EXPECT_EQ(oom_evidence({{}, 5}, {{}, 7}),
            "probably out of memory: the kernel's OOM killer killed 2 processes of this "
            "machine");
  EXPECT_EQ(oom_evidence({1, 5}, {1, 5}), "");
  EXPECT_EQ(oom_evidence({5, 5}, {2, 2}), "");
  EXPECT_EQ(oom_evidence({}, {2, 5}), "");
}

}  // namespace
}  // namespace distrun
