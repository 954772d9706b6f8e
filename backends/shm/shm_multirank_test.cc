// Errors of the backend shm that need peers.
#include <chrono>
#include <string>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/test/multirank_test.h"
#include "distrun/collectives.h"

namespace distrun::shm {
namespace {

using ::testing::HasSubstr;

class ShmMultirankTest : public MultirankTest {
 protected:
  void SetUp() override {
    MultirankTest::SetUp();
    if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
    group_ = new_group(std::nullopt, {.backend = "shm"});
  }

  Group group_;
};

TEST_F(ShmMultirankTest, RejectsReductionsBeforeAnythingIsSent) {
  c10d::ReduceOp scaled_sum;
  scaled_sum.op_ = c10d::ReduceOp::PREMUL_SUM;
  const at::Tensor x = at::ones({2});
  EXPECT_THAT(error_of([&] { all_reduce(x, scaled_sum, {.group = group_}); }),
              HasSubstr("shm has no PREMUL_SUM; expected SUM or AVG"));
  EXPECT_THAT(error_of([&] { all_reduce(x, c10d::ReduceOp::BAND, {.group = group_}); }),
              HasSubstr("shm has no BAND of Float"));
  all_reduce(x, c10d::ReduceOp::SUM, {.group = group_});
  EXPECT_TRUE(x.equal(at::full({2}, static_cast<float>(get_world_size()))));
}

TEST_F(ShmMultirankTest, SparseTensorsOfDifferentSizesAreAnErrorOnAllRanks) {
  const at::Tensor x = at::ones({get_rank() == 0 ? 3 : 4}).to_sparse();
  EXPECT_THAT(error_of([&] { all_reduce(x, c10d::ReduceOp::SUM, {.group = group_}); }),
              HasSubstr("all_reduce: the ranks' sparse tensors differ in sizes, dtype or number of "
                        "dense dimensions"));
}

TEST_F(ShmMultirankTest, AMonitoredBarrierNamesAllMissingRanks) {
  if (get_rank() == 0) {
    const std::string missing = get_world_size() == 2 ? "1" : "1, 2";
    EXPECT_THAT(error_of([&] {
                  monitored_barrier({.group = group_, .timeout = std::chrono::milliseconds(200)});
                }),
                HasSubstr("Ranks " + missing + " failed to pass monitoredBarrier in 200 ms"));
  }
  rendezvous_at("failed");
}

}  // namespace
}  // namespace distrun::shm
