#include "common/os/environment.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(EnvironmentTest, ReadsAnArrayAsGetenvDoes) {
  const char* variables[] = {"A=1", "B=", "A=2", "no equals sign", "C=x=y", nullptr};
  const Environment environment = Environment::from(variables);
  EXPECT_EQ(environment.get("A"), "1");
  EXPECT_EQ(environment.get("B"), "");
  EXPECT_EQ(environment.get("C"), "x=y");
  EXPECT_EQ(environment.get("D"), std::nullopt);
  EXPECT_EQ(environment.variables().size(), 3u);
}

TEST(EnvironmentTest, DefaultDoesNotReplaceAValue) {
  Environment environment;
  environment.set_default("OMP_NUM_THREADS", "1");
  environment.set_default("OMP_NUM_THREADS", "2");
  EXPECT_EQ(environment.get("OMP_NUM_THREADS"), "1");
  environment.set("OMP_NUM_THREADS", "3");
  EXPECT_EQ(environment.get("OMP_NUM_THREADS"), "3");
  environment.unset("OMP_NUM_THREADS");
  EXPECT_EQ(environment.get("OMP_NUM_THREADS"), std::nullopt);
}

TEST(EnvironmentTest, BlockSurvivesChangesAndMoves) {
  Environment environment;
  environment.set("B", "2");
  environment.set("A", "1");
  Environment::Block first = environment.block();
  environment.set("A", "changed");
  const Environment::Block block = std::move(first);
  EXPECT_STREQ(block.pointers()[0], "A=1");
  EXPECT_STREQ(block.pointers()[1], "B=2");
  EXPECT_EQ(block.pointers()[2], nullptr);
}

}  // namespace
}  // namespace distrun
