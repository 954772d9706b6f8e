#include "testsuites/harness/session/tested_program.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using Words = std::vector<std::string>;

TEST(TestedProgramTest, TheIdHasTheNameOfTheProgram) {
  EXPECT_EQ(test_info_of({.command = {"/opt/bin/check-ring"}}).id, "check-ring.Program.main");
  EXPECT_EQ(test_info_of({.command = {"./a b.1.sh", "x"}}).id, "a_b_1_sh.Program.main");
}

TEST(TestedProgramTest, TheNumberOfRanksIsFixed) {
  const TestInfo test = test_info_of({.command = {"./check"}, .ranks = 3});
  EXPECT_EQ(test.needs.ranks, 3);
  EXPECT_EQ(test.needs.ranks_max, 0);
}

TEST(TestedProgramTest, TheHostGetsTheRanksAndTheCommand) {
  EXPECT_EQ(host_of({.command = {"./check", "-x", ""}, .ranks = 4}),
            (Words{"/proc/self/exe", "test-program-host", "4", "./check", "-x", ""}));
}

}  // namespace
}  // namespace distrun
