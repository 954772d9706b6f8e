#include "backends/group/roll_call.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace distrun::internal {
namespace {

TEST(RollCallTest, NamesTheRanksThatDidNotReport) {
  EXPECT_EQ(text_of_roll_call({"barrier", "", "barrier", ""}, {0, 1, 2, 7}),
            "ranks 1, 7 did not come");
}

TEST(RollCallTest, NamesTheCallsIfTheyDiffer) {
  EXPECT_EQ(text_of_roll_call({"barrier", "all_reduce"}, {0, 3}),
            "ranks wait in different calls: rank 3 in all_reduce, rank 0 in barrier");
}

TEST(RollCallTest, ReportsThatNoRankIsMissing) {
  EXPECT_EQ(text_of_roll_call({"barrier", "barrier"}, {0, 1}),
            "every rank came and waited for the others");
}

class RollCallStoreTest : public ::testing::Test {
 protected:
  void join(GroupState& state, int rank) const {
    state.ranks = {4, 5, 6};
    state.process_group = c10::make_intrusive<c10d::ProcessGroup>(store_, rank, 3);
  }

  const c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(RollCallStoreTest, RanksThatReportAreNotMissing) {
  GroupState first, second;
  join(first, 0);
  join(second, 1);
  RollCall(second).report("barrier");
  EXPECT_EQ(RollCall(first).missing("barrier"), "rank 6 did not come");
}

TEST_F(RollCallStoreTest, NamesTheCallThatAPeerWaitsIn) {
  GroupState first, second;
  join(first, 0);
  join(second, 1);
  EXPECT_EQ(RollCall(first).missing_peer("send", 1), "rank 5 did not come");
  RollCall(second).report("send");
  EXPECT_EQ(RollCall(first).missing_peer("send", 1), "rank 5 waits in send");
}

TEST_F(RollCallStoreTest, IsSilentWithoutAGroup) {
  EXPECT_EQ(RollCall(GroupState()).missing("barrier"), "");
}

}  // namespace
}  // namespace distrun::internal
