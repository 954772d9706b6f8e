#include "testsuites/harness/protocol/rank_variables.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(RankVariablesTest, NameTheRankAndTheRendezvous) {
  auto its = rank_variables({.rank = 3,
                             .ranks = 4,
                             .local_rank = 1,
                             .local_ranks = 2,
                             .folder = "/tmp/x",
                             .backend = "gloo",
                             .seed = 7});
  EXPECT_EQ(its["RANK"], "3");
  EXPECT_EQ(its["LOCAL_RANK"], "1");
  EXPECT_EQ(its["WORLD_SIZE"], "4");
  EXPECT_EQ(its["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(its["DISTRUN_INIT_METHOD"], "file:///tmp/x/init");
  EXPECT_EQ(its["TMPDIR"], "/tmp/x/rank_3");
  EXPECT_EQ(its[kTestFolderVariable], "/tmp/x");
  EXPECT_EQ(its[kTestSeedVariable], "7");
  EXPECT_EQ(its[kTestNodesVariable], "1");
}

TEST(RankVariablesTest, NameTheNodeAndTheStore) {
  auto its = rank_variables({.rank = 3,
                             .ranks = 4,
                             .node = 1,
                             .nodes = 2,
                             .store_host = "fe80::1",
                             .store_port = 4711,
                             .store_text = "[fe80::1]:4711"});
  EXPECT_EQ(its["GROUP_RANK"], "1");
  EXPECT_EQ(its["GROUP_WORLD_SIZE"], "2");
  EXPECT_EQ(its["MASTER_ADDR"], "fe80::1");
  EXPECT_EQ(its["MASTER_PORT"], "4711");
  EXPECT_EQ(its["DISTRUN_STORE"], "[fe80::1]:4711");
  EXPECT_EQ(its["DISTRUN_INIT_METHOD"], "env://");
  EXPECT_EQ(its[kTestNodesVariable], "2");
}

TEST(RankVariablesTest, SayWhetherTheTestIsDebugged) {
  EXPECT_EQ(rank_variables({.folder = "/tmp/x"}).count(kTestDebuggedVariable), 0u);
  EXPECT_EQ(rank_variables({.folder = "/tmp/x", .is_debugged = true}).at(kTestDebuggedVariable),
            "1");
}

}  // namespace
}  // namespace distrun
