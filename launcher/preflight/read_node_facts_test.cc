#include "launcher/preflight/read_node_facts.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/test/folder.h"
#include "common/units.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr uid_t kRoot = 0, kUser = 1000;

class ReadNodeFactsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  NodeFacts read(uid_t user = kRoot) { return read_node_facts(environment_, folder_.path(), user); }

  testing::Folder folder_;
  Environment environment_;
};

TEST_F(ReadNodeFactsTest, WhatIsMissingIsEmpty) {
  const NodeFacts facts = read();
  EXPECT_FALSE(facts.open_files || facts.processes || facts.memory || facts.cgroup_cpus);
  EXPECT_EQ(facts.visible_cpus, 0);
  EXPECT_EQ(facts.gpus, 0);
  EXPECT_FALSE(facts.shared_memory.exists || facts.temporary.exists);
  EXPECT_EQ(facts.temporary.path, "/tmp");
  EXPECT_FALSE(facts.has_tmpdir);
}

TEST_F(ReadNodeFactsTest, ReadsSoftLimits) {
  write("/proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             300                  63512                processes \n"
        "Max open files            256                  20000                files     \n");
  write("/proc/1/status", "Name:\tinit\nUid:\t0\t0\t0\t0\nThreads:\t9\n");
  write("/proc/77/status", "Name:\ta\nUid:\t1000\t1000\t1000\t1000\nThreads:\t40\n");
  write("/proc/78/status", "Name:\tb\nUid:\t1000\t1000\t1000\t1000\nThreads:\t10\n");
  const NodeFacts facts = read(kUser);
  EXPECT_EQ(facts.open_files, 256U);
  ASSERT_TRUE(facts.processes);
  EXPECT_EQ(facts.processes->amount, 250U);
  EXPECT_EQ(facts.processes->limit, Left::Limit::kUser);
  EXPECT_FALSE(read(kRoot).processes);
}

TEST_F(ReadNodeFactsTest, NoLimitIsEmpty) {
  write("/proc/self/limits",
        "Max processes             unlimited            unlimited            processes \n"
        "Max open files            unlimited            unlimited            files     \n");
  const NodeFacts facts = read(kUser);
  EXPECT_FALSE(facts.open_files || facts.processes);
}

TEST_F(ReadNodeFactsTest, ReadsTheLowestLimitOfCgroupsVersion2) {
  write("/proc/self/cgroup", "0::/job/step\n");
  write("/proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n");
  const std::string job = "/sys/fs/cgroup/job";
  write(job + "/pids.max", "100\n");
  write(job + "/pids.current", "40\n");
  write(job + "/step/pids.max", "max\n");
  write(job + "/step/pids.current", "40\n");
  write(job + "/memory.max", "max\n");
  write(job + "/memory.current", "500\n");
  write(job + "/step/memory.max", "1000000\n");
  write(job + "/step/memory.current", "900000\n");
  write(job + "/step/memory.stat", "anon 1\ninactive_file 200000\nactive_file 100000\n");
  write(job + "/step/cpu.max", "400000 100000\n");
  write(job + "/cpu.max", "150000 100000\n");
  const NodeFacts facts = read();
  EXPECT_EQ(facts.processes.value().amount, 60U);
  EXPECT_EQ(facts.processes->limit, Left::Limit::kCgroup);
  EXPECT_EQ(facts.memory.value().amount, 400000U);
  EXPECT_EQ(facts.memory->limit, Left::Limit::kCgroup);
  EXPECT_DOUBLE_EQ(facts.cgroup_cpus.value(), 1.5);
}

TEST_F(ReadNodeFactsTest, ReadsLimitsOfCgroupsVersion1) {
  // In a container, the path is that of the host.
  write("/proc/self/cgroup", "3:pids:/docker/ab\n2:memory:/docker/ab\n1:cpu,cpuacct:/docker/ab\n");
  write("/proc/meminfo", "MemAvailable: 1 kB\n");
  const std::string mounts = "/sys/fs/cgroup";
  write(mounts + "/pids/pids.max", "70\n");
  write(mounts + "/pids/pids.current", "80\n");
  write(mounts + "/memory/memory.limit_in_bytes", "1000000\n");
  write(mounts + "/memory/memory.usage_in_bytes", "900000\n");
  write(mounts + "/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
  write(mounts + "/cpu/cpu.cfs_quota_us", "200000\n");
  write(mounts + "/cpu/cpu.cfs_period_us", "100000\n");
  NodeFacts facts = read();
  EXPECT_EQ(facts.processes.value().amount, 0U);
  EXPECT_EQ(facts.memory.value().amount, 1024U);
  EXPECT_EQ(facts.memory->limit, Left::Limit::kMachine);
  EXPECT_DOUBLE_EQ(facts.cgroup_cpus.value(), 2);
  write("/proc/meminfo", "MemAvailable: 1000 kB\n");
  write(mounts + "/cpu/cpu.cfs_quota_us", "-1\n");
  facts = read();
  EXPECT_EQ(facts.memory.value().amount, 150000U);
  EXPECT_FALSE(facts.cgroup_cpus);
}

TEST_F(ReadNodeFactsTest, CountsCpusAndGpus) {
  write("/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,8\n");
  for (const char* name : {"nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "null"}) {
    write(std::string("/dev/") + name, "");
  }
  // Root may open every file that exists.
  std::filesystem::create_symlink("hidden", folder_.path() + "/dev/nvidia3");
  const NodeFacts facts = read();
  EXPECT_EQ(facts.visible_cpus, 4);
  EXPECT_EQ(facts.gpus, 2);
}

TEST_F(ReadNodeFactsTest, LooksAtFolders) {
  environment_.set("TMPDIR", "/scratch");
  std::filesystem::create_directories(folder_.path() + "/dev/shm");
  write("/scratch", "a file");
  const NodeFacts facts = read();
  EXPECT_TRUE(facts.shared_memory.exists && facts.shared_memory.writable);
  EXPECT_GE(facts.shared_memory.bytes, facts.shared_memory.free_bytes);
  EXPECT_GT(facts.shared_memory.free_bytes, 0U);
  EXPECT_FALSE(facts.temporary.exists);
  EXPECT_TRUE(facts.has_tmpdir);
}

TEST_F(ReadNodeFactsTest, TakesTheVariablesOfCommunication) {
  for (const char* name : {"NCCL_DEBUG", "GLOO_SOCKET_IFNAME", "OMP_NUM_THREADS", "TORCHELASTIC_X",
                           "TORCH_FR_DUMP_TEMP_FILE", "PATH", "TORCH_LOGS"}) {
    environment_.set(name, "1");
  }
  EXPECT_THAT(read().variables,
              ElementsAre(Pair("GLOO_SOCKET_IFNAME", "1"), Pair("NCCL_DEBUG", "1"),
                          Pair("OMP_NUM_THREADS", "1"), Pair("TORCH_LOGS", "1")));
  EXPECT_TRUE(is_compared("NCCL_DEBUG"));
  EXPECT_FALSE(is_compared("GLOO_SOCKET_IFNAME"));
}

}  // namespace
}  // namespace distrun
