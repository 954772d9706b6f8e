#include "launcher/nodes/launch_nodes.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::seconds;

TEST(LaunchNodesTest, TakesTheFlagsOfTheLaunch) {
  LaunchPlan plan;
  for (int i = 0; i < 4; ++i) plan.workers.push_back({.rank = Rank(i), .local_rank = LocalRank(i)});
  LaunchOptions& options = plan.options;
  options.nnodes = 3;
  options.node_rank = 1;
  options.master_addr = "gpu-0";
  options.master_port = 29501;
  options.run_id = "run 7";
  options.role = "trainer";
  options.max_restarts = 2;
  options.hang_after = std::chrono::milliseconds(1500);
  options.heartbeat = std::chrono::milliseconds(500);
  options.join_timeout = seconds(60);
  options.shutdown_timeout = seconds(10);
  const NodesPlan nodes = nodes_plan_of(plan, "gpu-7");
  EXPECT_EQ(nodes.own, (JoinRequest{.command = "distrun launch",
                                    .run_id = "run 7",
                                    .node = 1,
                                    .nodes = 3,
                                    .workers = 4,
                                    .max_restarts = 2,
                                    .hang_after_ms = 1500,
                                    .heartbeat_ms = 500,
                                    .role = "trainer",
                                    .host = "gpu-7"}));
  EXPECT_EQ(nodes.node_0.text(), "gpu-0:29501");
  EXPECT_EQ(nodes.join_timeout, seconds(60));
  EXPECT_EQ(nodes.stop_patience, seconds(14));
  EXPECT_EQ(nodes.stop_timeout, seconds(65));
}

TEST(LaunchNodesTest, NamesTheFlagThatRecordsValues) {
  LaunchPlan plan;
  EXPECT_EQ(nodes_plan_of(plan, "gpu-7").own.records, "");
  plan.options.digest = true;
  EXPECT_EQ(nodes_plan_of(plan, "gpu-7").own.records, "--digest");
  plan.options.digest_inputs = true;
  EXPECT_EQ(nodes_plan_of(plan, "gpu-7").own.records, "--save-digests or --compare-digests");
}

}  // namespace
}  // namespace distrun
