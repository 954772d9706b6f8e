#include "launcher/plan/several_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::string wrong(LaunchOptions options) {
  const auto settled = settle_several_nodes(options);
  return settled ? "" : settled.error().message;
}

TEST(SeveralNodesTest, AllNodesShareDefaultPortAndId) {
  LaunchOptions options{.nnodes = 2, .node_rank = 1};
  ASSERT_TRUE(settle_several_nodes(options));
  EXPECT_EQ(options.master_port, 29500);
  EXPECT_EQ(options.run_id, "none");
}

TEST(SeveralNodesTest, KeepsGivenPortAndId) {
  LaunchOptions options{.nnodes = 2, .run_id = "run", .master_port = 1234};
  ASSERT_TRUE(settle_several_nodes(options));
  EXPECT_EQ(options.master_port, 1234);
  EXPECT_EQ(options.run_id, "run");
}

TEST(SeveralNodesTest, DoesNotChangeOneNode) {
  LaunchOptions options{.same_user = true};
  ASSERT_TRUE(settle_several_nodes(options));
  EXPECT_EQ(options.master_port, 0);
  EXPECT_EQ(options.run_id, "");
}

TEST(SeveralNodesTest, RejectsImpossibleFlagsByName) {
  EXPECT_THAT(wrong({.nnodes = 2, .node_rank = 2}),
              HasSubstr("--node-rank: 2 is not between 0 and 1 (--nnodes 2)"));
  EXPECT_THAT(wrong({.node_rank = 1}),
              HasSubstr("--node-rank: 1 is not between 0 and 0 (--nnodes 1)"));
  EXPECT_THAT(wrong({.nnodes = 2, .node_rank = -1}),
              HasSubstr("--node-rank: -1 is not between 0 and 1"));
  EXPECT_THAT(wrong({.nnodes = 2, .store = {StoreChoice::Kind::kFile, "/f"}}),
              HasSubstr("--store"));
  EXPECT_THAT(wrong({.nnodes = 2, .same_user = true}), HasSubstr("--same-user"));
  EXPECT_THAT(wrong({.nnodes = 2, .run_id = std::string(513, 'x')}), HasSubstr("--rdzv-id"));
  EXPECT_THAT(wrong({.nnodes = 2, .role = std::string(513, 'x')}), HasSubstr("--role"));
}

TEST(SeveralNodesTest, ReadsJoinTimeoutLikeTorchrun) {
  EXPECT_EQ(join_timeout_of("").value(), std::nullopt);
  EXPECT_EQ(join_timeout_of("read_timeout=5").value(), std::nullopt);
  EXPECT_EQ(join_timeout_of("timeout=60").value(), seconds(60));
  EXPECT_EQ(join_timeout_of("read_timeout=5,join_timeout=7").value(), seconds(7));
  EXPECT_EQ(join_timeout_of("rank=1, timeout = 60 ").value(), seconds(60));
  for (const std::string text : {"timeout=", "timeout", "timeout=0", "timeout=1.5", "timeout=-1"}) {
    EXPECT_FALSE(join_timeout_of(text)) << text;
  }
}

}  // namespace
}  // namespace distrun
