#include "testsuites/harness/protocol/rank_variables.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(RankVariablesTest, NameTheRankAndTheRendezvous) {
  auto its =
      rank_variables({.rank = 2, .ranks = 4, .folder = "/tmp/x", .backend = "gloo", .seed = 7});
  EXPECT_EQ(its["RANK"], "2");
  EXPECT_EQ(its["LOCAL_RANK"], "2");
  EXPECT_EQ(its["WORLD_SIZE"], "4");
  EXPECT_EQ(its["DISTRUN_INIT_METHOD"], "file:///tmp/x/init");
  EXPECT_EQ(its["TMPDIR"], "/tmp/x/rank_2");
  EXPECT_EQ(its[kTestFolderVariable], "/tmp/x");
  EXPECT_EQ(its[kTestSeedVariable], "7");
}

TEST(RankVariablesTest, SayWhetherTheTestIsDebugged) {
  EXPECT_EQ(rank_variables({.folder = "/tmp/x"}).count(kTestDebuggedVariable), 0u);
  EXPECT_EQ(rank_variables({.folder = "/tmp/x", .is_debugged = true}).at(kTestDebuggedVariable),
            "1");
}

}  // namespace
}  // namespace distrun
