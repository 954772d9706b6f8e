#include "launcher/plan/numa_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/numa_tree.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Two sockets with two nodes each. Node n has the cores 4n to 4n + 3, whose threads are the CPU of
// the same number and the one 16 above. The first core of a node has an L3 cache, the other three
// share another. CPU 32 is in no node.
class NumaMachineTest : public ::testing::Test {
 public:
  NumaMachineTest() {
    for (int node = 0; node < 4; ++node) {
      const int first = 4 * node;
      tree_.add_node(node, fmt::format("{}-{},{}-{}", first, first + 3, first + 16, first + 19));
    }
    tree_.add_gpu("ab12:00:00.0", 1, "GPU-cccc", 2);
    tree_.add_gpu("10000:01:00.0", 0, "GPU-dddd", 3);
    tree_.add_gpu("0000:17:00.0", 3, "GPU-aaaa", 0);
    tree_.add_gpu("0000:2a:00.0", 2, "GPU-bbbb", 0);
    for (int cpu = 0; cpu <= 32; ++cpu) all_.insert(cpu);
  }

 protected:
  void add_groups() {
    all_.erase(32);
    for (int node = 0; node < 4; ++node) {
      const int first = 4 * node;
      for (int cpu = first; cpu < first + 4; ++cpu) {
        const std::string threads = fmt::format("{},{}", cpu, cpu + 16);
        const std::string rest =
            fmt::format("{}-{},{}-{}", first + 1, first + 3, first + 17, first + 19);
        for (const int thread : {cpu, cpu + 16}) {
          tree_.add_cpu(thread, node / 2, threads);
          tree_.add_cache(thread, 0, 1, "Data", threads);
          tree_.add_cache(thread, 2, 2, "Unified", threads);
          tree_.add_cache(thread, 3, 3, "Unified", cpu == first ? threads : rest);
          tree_.add_cache(thread, 10, 4, "Instruction", threads);
        }
      }
    }
  }

  NumaMachine read(CpuGroup group) const {
    return read_numa_machine(group, all_, tree_.root()).value();
  }

  // The groups of the CPUs of node 2 by CPU.
  std::vector<int> groups(CpuGroup group) const {
    std::vector<int> groups;
    for (const NumaCpu& cpu : read(group).cpus) {
      if (cpu.node == 2) groups.push_back(cpu.group);
    }
    return groups;
  }

  std::string error(CpuGroup group) const {
    const auto machine = read_numa_machine(group, all_, tree_.root());
    if (machine) return "no error";
    EXPECT_EQ(machine.error().kind, ErrorKind::kInvalidArgument);
    return machine.error().message;
  }

  std::vector<std::string> addresses() const {
    std::vector<std::string> addresses;
    for (const Gpu& gpu : read(CpuGroup::kNode).gpus) addresses.push_back(gpu.address);
    return addresses;
  }

  testing::NumaTree tree_;
  CpuSet all_;
};

TEST_F(NumaMachineTest, GpusAreInTheOrderOfTheirPciAddresses) {
  EXPECT_THAT(addresses(),
              ElementsAre("0000:17:00.0", "0000:2a:00.0", "ab12:00:00.0", "10000:01:00.0"));
  const auto gpus = read(CpuGroup::kNode).gpus;
  EXPECT_EQ(gpus[2].uuid, "GPU-cccc");
  EXPECT_EQ(gpus[2].node, 2);
}

TEST_F(NumaMachineTest, GpuWithoutNodeIsOnNodeZero) {
  tree_.add_gpu("ab12:00:00.0", 1, "GPU-cccc", -1);
  EXPECT_EQ(read(CpuGroup::kNode).gpus[2].node, 0);
}

TEST_F(NumaMachineTest, OmitsGpusThatCudaDoesNotSee) {
  tree_.remove("/dev/nvidia3");
  tree_.add_gpu("ab12:00:00.0", 1, "GPU-cccc", 2, /*excluded=*/"Yes");
  EXPECT_THAT(addresses(), ElementsAre("0000:2a:00.0", "10000:01:00.0"));
}

TEST_F(NumaMachineTest, MachineWithoutDriverHasNoGpu) {
  const testing::NumaTree empty;
  EXPECT_THAT(read_numa_machine(CpuGroup::kNode, all_, empty.root()).value().gpus, IsEmpty());
}

TEST_F(NumaMachineTest, HasTheAllowedCpusOfEachNode) {
  all_ = {0, 5, 20, 31, 32};
  std::vector<std::pair<int, int>> cpus;
  for (const NumaCpu& cpu : read(CpuGroup::kNode).cpus) cpus.emplace_back(cpu.number, cpu.node);
  EXPECT_THAT(cpus,
              ElementsAre(std::pair(0, 0), std::pair(5, 1), std::pair(20, 1), std::pair(31, 3)));
}

TEST_F(NumaMachineTest, GroupsCpusBySocketCoreAndCache) {
  add_groups();
  EXPECT_THAT(groups(CpuGroup::kSocket), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(groups(CpuGroup::kCore), ElementsAre(8, 9, 10, 11, 8, 9, 10, 11));
  EXPECT_THAT(groups(CpuGroup::kCache), ElementsAre(8, 9, 9, 9, 8, 9, 9, 9));
}

TEST_F(NumaMachineTest, ThreadWhoseCoreIsPartlyAllowedKeepsItsCore) {
  add_groups();
  all_ = {24, 25};
  EXPECT_THAT(groups(CpuGroup::kCore), ElementsAre(8, 9));
}

TEST_F(NumaMachineTest, ErrorsNameTheFile) {
  add_groups();
  const std::string cannot = "cannot read " + tree_.root(),
                    no_file = ": no such file or directory; ";
  const std::string cpu = "/sys/devices/system/cpu/cpu8";
  tree_.remove(cpu + "/topology/physical_package_id");
  EXPECT_EQ(error(CpuGroup::kNode), "no error") << "nothing reads it";
  EXPECT_THAT(error(CpuGroup::kSocket),
              StartsWith(cannot + cpu + "/topology/physical_package_id" + no_file));
  tree_.write(cpu + "/topology/thread_siblings_list", "8;24\n");
  EXPECT_EQ(error(CpuGroup::kCore), cannot + cpu +
                                        "/topology/thread_siblings_list: '8;24' is not a whole "
                                        "number; remove the flag");
  tree_.write(cpu + "/cache/index3/level", "");
  EXPECT_THAT(error(CpuGroup::kCache), StartsWith(cannot + cpu + "/cache/index3/level: ''"));
  for (const char* index : {"0", "2", "3"}) {
    tree_.write(cpu + "/cache/index" + index + "/type", "Instruction\n");
  }
  EXPECT_THAT(error(CpuGroup::kCache), StartsWith(cannot + cpu + "/cache: it lists no data cache"));

  tree_.remove("/sys/devices/system/node/node3/cpulist");
  EXPECT_THAT(error(CpuGroup::kNode),
              StartsWith(cannot + "/sys/devices/system/node/node3/cpulist" + no_file));
  tree_.remove("/sys/bus/pci/devices/ab12:00:00.0/numa_node");
  EXPECT_THAT(error(CpuGroup::kNode),
              StartsWith(cannot + "/sys/bus/pci/devices/ab12:00:00.0/numa_node" + no_file));
  tree_.write("/proc/driver/nvidia/gpus/0000:2a:00.0/information", "Model: x\n");
  EXPECT_THAT(error(CpuGroup::kNode), StartsWith(cannot + "/proc/driver/nvidia/gpus/0000:2a:00.0/"
                                                          "information: Device Minor: ''"));
  tree_.remove("/proc/driver/nvidia/gpus/0000:17:00.0/information");
  EXPECT_THAT(error(CpuGroup::kNode),
              StartsWith(cannot + "/proc/driver/nvidia/gpus/0000:17:00.0/information" + no_file));
}

TEST_F(NumaMachineTest, KernelWithoutNumaNodesIsAnError) {
  const testing::NumaTree small;
  small.add_gpu("0000:17:00.0", 0, "GPU-aaaa", -1);
  const auto machine = read_numa_machine(CpuGroup::kNode, all_, small.root());
  ASSERT_TRUE(machine.has_error());
  EXPECT_EQ(machine.error().message, "cannot read " + small.root() +
                                         "/sys/devices/system/node: no such file or directory; "
                                         "remove the flag");
}

}  // namespace
}  // namespace distrun
