#include "common/text/near_miss.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

const std::vector<std::string> kCommands = {"launch", "store", "status", "test"};

TEST(NearMissTest, FindsTheWordThatWasMeant) {
  EXPECT_EQ(near_miss("lunch", kCommands), "launch");
  EXPECT_EQ(near_miss("statsu", kCommands), "status");
  EXPECT_EQ(near_miss("tests", kCommands), "test");
}

TEST(NearMissTest, PrefersAWordThatStartsTheSame) {
  EXPECT_EQ(near_miss("lau", kCommands), "launch");
  EXPECT_EQ(near_miss("nproc", {"nnode", "nproc-per-node"}), "nproc-per-node");
}

TEST(NearMissTest, FindsNothingFarAway) {
  EXPECT_EQ(near_miss("bogus", kCommands), std::nullopt);
  EXPECT_EQ(near_miss("x", kCommands), std::nullopt);
  EXPECT_EQ(near_miss("launch", {}), std::nullopt);
}

TEST(NearMissTest, AsksWhetherTheWordWasMeant) {
  EXPECT_EQ(did_you_mean("lunch", kCommands), ": did you mean launch?");
  EXPECT_EQ(did_you_mean("time", {"timeout"}, "--"), ": did you mean --timeout?");
  EXPECT_EQ(did_you_mean("bogus", kCommands), "");
}

}  // namespace
}  // namespace distrun
