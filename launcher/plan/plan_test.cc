#include "launcher/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace distrun
