#include "launcher/preflight/run_findings.h"

#include <chrono>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kAllowConnections =
    ": allow connections on all ports between the nodes, or choose another network with "
    "GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME";

std::vector<CheckedNode> healthy_nodes(int count) {
  std::vector<CheckedNode> nodes;
  for (int node = 0; node < count; ++node) {
    nodes.push_back(
        {.report = {.node = node,
                    .host = fmt::format("gpu-{}", node),
                    .address = fmt::format("10.0.0.{}", node),
                    .torch = "2.13.0",
                    .interface = "eth0",
                    .mtu = 1500,
                    .gpus = 8,
                    .variables = {{"NCCL_DEBUG", "WARN"}}},
         .reach = {.clock = {WallTime(milliseconds(100)), WallTime(milliseconds(200))}}});
  }
  return nodes;
}

TEST(RunFindingsTest, HealthyNodesHaveNone) {
  EXPECT_THAT(run_findings(healthy_nodes(1)), IsEmpty());
  EXPECT_THAT(run_findings(healthy_nodes(4)), IsEmpty());
}

TEST(RunFindingsTest, NamesTheNodesInTheirOrder) {
  auto nodes = healthy_nodes(3);
  nodes[2].report.findings = {"c"};
  nodes[0].report.findings = {"a", "b"};
  std::swap(nodes[0], nodes[1]);
  EXPECT_THAT(run_findings(nodes),
              ElementsAre("node 0 (gpu-0): a", "node 0 (gpu-0): b", "node 2 (gpu-2): c"));
}

TEST(RunFindingsTest, DoesNotNameTheOnlyNode) {
  auto nodes = healthy_nodes(1);
  nodes[0].report.findings = {"a"};
  EXPECT_THAT(run_findings(nodes), ElementsAre("a"));
}

TEST(RunFindingsTest, ComparesWhatShouldBeTheSame) {
  auto nodes = healthy_nodes(4);
  nodes[1].report.torch = "2.12.0";
  nodes[2].report.torch = "";
  nodes[3].report.torch.reset();
  nodes[3].report.mtu = 9000;
  nodes[0].report.mtu.reset();
  nodes[2].report.gpus = 7;
  nodes[1].report.variables = {{"NCCL_DEBUG", "INFO"}, {"TORCH_LOGS", ""}};
  nodes[2].report.variables = {{"NCCL_DEBUG", "WARN"}, {"TORCH_LOGS", "+dynamo"}};
  EXPECT_THAT(
      run_findings(nodes),
      ElementsAre(
          "the version of PyTorch differs: 2.13.0 on node 0 (gpu-0), 2.12.0 on node 1 (gpu-1), "
          "none on node 2 (gpu-2): install the same version on all nodes, or give the Python that "
          "has it (PYTHON_EXEC)",
          "the MTU of the network between the nodes differs: 1500 on nodes 1, 2, 9000 on node 3 "
          "(gpu-3): set the same MTU everywhere (ip link set eth0 mtu N)",
          "NCCL_DEBUG differs: WARN on nodes 0, 2, 3, INFO on node 1 (gpu-1): set the same value "
          "on all nodes",
          "TORCH_LOGS differs: not set on nodes 0, 3, empty on node 1 (gpu-1), +dynamo on node 2 "
          "(gpu-2): set the same value on all nodes",
          "the number of GPUs differs: 8 on nodes 0, 1, 3, 7 on node 2 (gpu-2): look for missing "
          "GPUs with nvidia-smi, or give each node its own --nproc-per-node"));
}

TEST(RunFindingsTest, NoPyTorchAnywhereIsNoFinding) {
  auto nodes = healthy_nodes(2);
  for (CheckedNode& node : nodes) node.report.torch = "";
  EXPECT_THAT(run_findings(nodes), IsEmpty());
}

TEST(RunFindingsTest, ComparesClocksByTheReadingsThatAreClosest) {
  auto nodes = healthy_nodes(3);
  nodes[1].reach.clock[1] += milliseconds(5000);  // Read late.
  EXPECT_THAT(run_findings(nodes), IsEmpty());
  nodes[1].reach.clock[0] += milliseconds(1001);
  nodes[2].reach.clock[0] += milliseconds(500);
  EXPECT_THAT(run_findings(nodes),
              ElementsAre("the clock of node 1 (gpu-1) is 1.0 s ahead of that of node 0 (gpu-0): "
                          "synchronize the clocks of all nodes (chrony, ntpd)"));
  nodes[1].reach.clock[0] -= milliseconds(1);
  EXPECT_THAT(run_findings(nodes), IsEmpty());
}

TEST(RunFindingsTest, NamesEachPairThatCannotConnect) {
  auto nodes = healthy_nodes(4);
  nodes[0].reach.unreachable = {{1, "connection refused"}};
  nodes[2].reach.unreachable = {{3, "no answer within 2 s"}};
  nodes[3].reach.unreachable = {{2, "network is unreachable"}};
  EXPECT_THAT(run_findings(nodes),
              ElementsAre(std::string("node 0 (gpu-0) cannot connect to node 1 (gpu-1) at 10.0.0.1 "
                                      "(connection refused)") +
                              kAllowConnections,
                          std::string("node 2 (gpu-2) and node 3 (gpu-3) cannot connect to each "
                                      "other (no answer within 2 s)") +
                              kAllowConnections));
}

TEST(RunFindingsTest, NamesTheNodeThatNobodyReachesOnce) {
  auto nodes = healthy_nodes(4);
  for (const int other : {0, 1, 3}) {
    nodes[static_cast<std::size_t>(other)].reach.unreachable = {{2, "no answer within 2 s"}};
  }
  EXPECT_THAT(run_findings(nodes),
              ElementsAre(std::string("nodes 0, 1, 3 cannot connect to node 2 (gpu-2) at 10.0.0.2 "
                                      "(no answer within 2 s)") +
                          kAllowConnections));
  nodes[2].reach.unreachable = {{0, "a"}, {1, "a"}, {3, "a"}};
  EXPECT_THAT(run_findings(nodes),
              ElementsAre(std::string("node 2 (gpu-2) and nodes 0, 1, 3 cannot connect to each "
                                      "other (a)") +
                          kAllowConnections));
}

}  // namespace
}  // namespace distrun
