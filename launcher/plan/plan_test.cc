#include "launcher/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/test/numa_tree.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PlanTest, RanksCountFromZeroInOrder) {
  const LaunchPlan plan = make_plan({.nproc_per_node = 3}, {"/bin/true", {"true"}}, {}).value();
  ASSERT_EQ(plan.workers.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.workers[static_cast<std::size_t>(i)].rank, Rank(i));
    EXPECT_EQ(plan.workers[static_cast<std::size_t>(i)].local_rank, LocalRank(i));
  }
}

TEST(PlanTest, SubstitutesLocalRankInArguments) {
  const Command command{"/bin/echo", {"echo", "${local_rank}-of-${local_rank}", "$local_rank"}};
  const LaunchPlan plan = make_plan({.nproc_per_node = 2}, command, {}).value();
  EXPECT_THAT(plan.workers[0].arguments, ElementsAre("echo", "0-of-0", "$local_rank"));
  EXPECT_THAT(plan.workers[1].arguments, ElementsAre("echo", "1-of-1", "$local_rank"));
}

TEST(PlanTest, RejectsZeroWorkers) {
  EXPECT_EQ(make_plan({.nproc_per_node = 0}, {}, {}).error().kind, ErrorKind::kInvalidArgument);
}

LaunchPlan bound_plan(const Environment& environment = {}) {
  return make_plan({.nproc_per_node = 1, .numa_binding = NumaBinding::kNode},
                   {"/bin/true", {"true"}}, environment)
      .value();
}

TEST(PlanTest, BindsWorkersToTheCpusThatThisProcessMayUse) {
  testing::NumaTree tree;
  tree.add_gpu("0000:17:00.0", 0, "GPU-1111", 0);
  tree.add_node(0, "0-8191");
  LaunchPlan plan = bound_plan();
  ASSERT_TRUE(bind_workers(plan, tree.root()).has_value());
  EXPECT_EQ(plan.workers[0].cpus, usable_cpus());

  plan = make_plan({.nproc_per_node = 1}, {"/bin/true", {"true"}}, {}).value();
  ASSERT_TRUE(bind_workers(plan, tree.root()).has_value());
  EXPECT_THAT(plan.workers[0].cpus, IsEmpty()) << "without the flag";
}

TEST(PlanTest, ErrorsOfTheBindingNameTheFlag) {
  testing::NumaTree tree;
  tree.add_gpu("0000:17:00.0", 0, "GPU-1111", 0);
  tree.add_node(0, "0-8191");
  Environment environment;
  environment.set("CUDA_VISIBLE_DEVICES", "");
  LaunchPlan plan = bound_plan(environment);
  const auto bound = bind_workers(plan, tree.root());
  ASSERT_TRUE(bound.has_error());
  EXPECT_EQ(bound.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(bound.error().message, ::testing::StartsWith("--numa-binding: no GPU is visible: "));
}

}  // namespace
}  // namespace distrun
