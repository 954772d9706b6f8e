#include "launcher/plan/numa_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two sockets with two nodes each. Node n has the cores 4n to 4n + 3, whose threads are the CPU of
// the same number and the one 16 above. The first core of a node has an L3 cache, the other three
// share another.
NumaMachine machine_of(NumaBinding binding) {
  NumaMachine machine;
  machine.gpus = {{"0000:17:00.0", "GPU-a1", 0},
                  {"0000:2a:00.0", "GPU-a2", 0},
                  {"0000:9c:00.0", "GPU-c1", 2},
                  {"0000:da:00.0", "GPU-d1", 0}};
  for (int cpu = 0; cpu < 32; ++cpu) {
    const int core = cpu % 16, node = core / 4;
    int group = 0;
    if (group_of(binding) == CpuGroup::kSocket) group = node / 2;
    if (group_of(binding) == CpuGroup::kCore) group = core;
    if (group_of(binding) == CpuGroup::kCache) group = 4 * node + (core % 4 == 0 ? 0 : 1);
    machine.cpus.push_back({cpu, node, group});
  }
  return machine;
}

void allow_only(NumaMachine& machine, const CpuSet& cpus) {
  std::erase_if(machine.cpus, [&](const NumaCpu& cpu) { return !cpus.contains(cpu.number); });
}

// The kernel's text of each worker's CPUs; on failure, the message.
std::vector<std::string> lists(NumaBinding binding, int workers, const NumaMachine& machine,
                               const std::optional<std::string>& visible_devices = {}) {
  const auto all = cpus_near_gpus(binding, workers, machine, visible_devices);
  std::vector<std::string> lists;
  if (!all) {
    EXPECT_EQ(all.error().kind, ErrorKind::kInvalidArgument);
    return {all.error().message};
  }
  for (const CpuSet& cpus : *all) lists.push_back(cpu_list(cpus));
  return lists;
}

std::vector<std::string> lists(NumaBinding binding, int workers,
                               const std::optional<std::string>& visible_devices = {}) {
  return lists(binding, workers, machine_of(binding), visible_devices);
}

TEST(NumaBindingTest, NodeIsAllOfTheNode) {
  EXPECT_THAT(lists(NumaBinding::kNode, 4),
              ElementsAre("0-3,16-19", "0-3,16-19", "8-11,24-27", "0-3,16-19"));
}

TEST(NumaBindingTest, SocketIsAllNodesOfTheSocket) {
  EXPECT_THAT(lists(NumaBinding::kSocket, 3), ElementsAre("0-7,16-23", "0-7,16-23", "8-15,24-31"));
}

TEST(NumaBindingTest, ExclusiveDividesTheCoresOfTheNode) {
  EXPECT_THAT(lists(NumaBinding::kExclusive, 4),
              ElementsAre("0-1,16-17", "2,18", "8-11,24-27", "3,19"));
  EXPECT_THAT(lists(NumaBinding::kExclusive, 1), ElementsAre("0-1,16-17"))
      << "GPUs without a worker have a share too";
  EXPECT_THAT(lists(NumaBinding::kExclusive, 1, "3"), ElementsAre("0-3,16-19"))
      << "GPUs that are not visible have none";
}

TEST(NumaBindingTest, CoreComplexTakesLargerCachesFirst) {
  EXPECT_THAT(lists(NumaBinding::kCoreComplex, 4),
              ElementsAre("1-3,17-19", "0,16", "9-11,25-27", "1-3,17-19"));
  NumaMachine machine = machine_of(NumaBinding::kCoreComplex);
  allow_only(machine, {0, 1, 16, 17});
  EXPECT_THAT(lists(NumaBinding::kCoreComplex, 2, machine), ElementsAre("0,16", "1,17"))
      << "of the same size: the lower CPU first";
}

TEST(NumaBindingTest, UsesOnlyAllowedCpus) {
  NumaMachine machine = machine_of(NumaBinding::kNode);
  allow_only(machine, {1, 2, 18, 30});
  EXPECT_THAT(lists(NumaBinding::kNode, 1, machine), ElementsAre("1-2,18"));
  EXPECT_THAT(lists(NumaBinding::kNode, 3, machine),
              ElementsAre("the GPU 0000:9c:00.0 of local rank 2 is on NUMA node 2, and distrun may "
                          "use none of its CPUs; allow them, or remove the flag"));
  for (const auto binding :
       {NumaBinding::kSocket, NumaBinding::kExclusive, NumaBinding::kCoreComplex}) {
    machine = machine_of(binding);
    allow_only(machine, {0, 1, 2, 30});
    EXPECT_THAT(lists(binding, 3, machine), ElementsAre(HasSubstr("may use none of its CPUs")))
        << static_cast<int>(binding);
  }
}

TEST(NumaBindingTest, SocketIgnoresNodesWithoutCpus) {
  NumaMachine machine = machine_of(NumaBinding::kSocket);
  allow_only(machine, {0, 1, 8});
  EXPECT_THAT(lists(NumaBinding::kSocket, 3, machine), ElementsAre("0-1", "0-1", "8"));
}

TEST(NumaBindingTest, ExclusiveNeedsACoreForEachGpu) {
  NumaMachine machine = machine_of(NumaBinding::kExclusive);
  allow_only(machine, {0, 1, 16, 17, 8});
  EXPECT_THAT(lists(NumaBinding::kExclusive, 1, machine),
              ElementsAre("NUMA node 0 has 3 GPUs, but distrun may use only 2 of its cores; give "
                          "KIND node instead of exclusive"));
  EXPECT_THAT(lists(NumaBinding::kExclusive, 1, machine, "2,0,1"), ElementsAre("8"));
}

TEST(NumaBindingTest, VisibleDevicesSelectAndOrderGpus) {
  EXPECT_THAT(lists(NumaBinding::kExclusive, 3, "2, 1,0"),
              ElementsAre("8-11,24-27", "0-1,16-17", "2-3,18-19"));
  EXPECT_THAT(lists(NumaBinding::kNode, 2, "GPU-c,GPU-a2"), ElementsAre("8-11,24-27", "0-3,16-19"));
  EXPECT_THAT(lists(NumaBinding::kNode, 1, "2,-1,MIG-1"), ElementsAre("8-11,24-27"))
      << "an entry that is not a GPU ends the list";
}

TEST(NumaBindingTest, ErrorsOfVisibleDevicesSayWhatToDo) {
  EXPECT_THAT(lists(NumaBinding::kNode, 1, "0,MIG-1"),
              ElementsAre("CUDA_VISIBLE_DEVICES lists 'MIG-1': MIG devices are not supported; "
                          "remove the flag"));
  EXPECT_THAT(
      lists(NumaBinding::kNode, 1, "GPU-a"),
      ElementsAre("CUDA_VISIBLE_DEVICES lists 'GPU-a', with which several UUIDs begin; give "
                  "more of the UUID"));
  EXPECT_THAT(lists(NumaBinding::kNode, 1, "GPU-e"),
              ElementsAre("CUDA_VISIBLE_DEVICES lists 'GPU-e', but no GPU in "
                          "/proc/driver/nvidia/gpus has this UUID; list numbers instead"));
}

TEST(NumaBindingTest, EachWorkerNeedsAGpu) {
  constexpr const char* kNone =
      "no GPU is visible: /proc/driver/nvidia/gpus lists none that distrun may use, or "
      "CUDA_VISIBLE_DEVICES hides all GPUs; remove the flag";
  EXPECT_THAT(lists(NumaBinding::kNode, 1, ""), ElementsAre(kNone));
  EXPECT_THAT(lists(NumaBinding::kNode, 1, "1,GPU-a2"), ElementsAre(kNone)) << "listed twice";
  EXPECT_THAT(lists(NumaBinding::kNode, 1, NumaMachine{}), ElementsAre(kNone));
  EXPECT_THAT(lists(NumaBinding::kNode, 5),
              ElementsAre("5 workers need 5 visible GPUs, but there are only 4; give "
                          "--nproc-per-node 4, or remove the flag"));
  EXPECT_THAT(lists(NumaBinding::kNode, 2, "3"),
              ElementsAre("2 workers need 2 visible GPUs, but there is only 1; give "
                          "--nproc-per-node 1, or remove the flag"));
}

TEST(NumaBindingTest, KindsAreTorchruns) {
  EXPECT_EQ(parse_numa_binding("node").value(), NumaBinding::kNode);
  EXPECT_EQ(parse_numa_binding("socket").value(), NumaBinding::kSocket);
  EXPECT_EQ(parse_numa_binding("exclusive").value(), NumaBinding::kExclusive);
  EXPECT_EQ(parse_numa_binding("core-complex").value(), NumaBinding::kCoreComplex);
  for (const char* text : {"", "Node", "core_complex", "everywhere"}) {
    EXPECT_EQ(parse_numa_binding(text).error().message,
              "'" + std::string(text) + "' is not node, socket, exclusive or core-complex");
  }
}

}  // namespace
}  // namespace distrun
