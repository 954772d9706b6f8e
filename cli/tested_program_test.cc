// `distrun test -- PROGRAM`: programs that are tests as a whole.
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "common/test/folder.h"
#include "launcher/test/run_program.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

class TestedProgramTest : public ::testing::Test {
 protected:
  TestedProgramTest() {
    options_.environment.set("XDG_CACHE_HOME", folder_.path());
    options_.environment.set("DISTRUN", DISTRUN_PROGRAM);
    options_.environment.set("HUNG", HUNG_PROGRAM);
  }

  testing::ProgramResult test(Words arguments) const {
    arguments.insert(arguments.begin(), {DISTRUN_PROGRAM, "test"});
    return testing::run_program(arguments, options_);
  }

  // Every rank runs `script`.
  testing::ProgramResult run_script(const std::string& script, Words flags = {}) const {
    flags.insert(flags.end(), {"--", "sh", "-c", script});
    return test(flags);
  }

  testing::Folder folder_;
  testing::ProgramOptions options_;
};

TEST_F(TestedProgramTest, PassesIfEveryRankExitsWithZero) {
  const auto result = run_script("echo $RANK $LOCAL_RANK of $WORLD_SIZE", {"--show-output"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("PASS"), HasSubstr("sh.Program.main\n"),
                                HasSubstr("[rank 0] 0 0 of 2\n"), HasSubstr("[rank 1] 1 1 of 2\n"),
                                EndsWith("\n1 passed, 0 failed, 0 skipped\n")));
}

TEST_F(TestedProgramTest, FailsIfARankExitsWithAnotherStatus) {
  const auto result = run_script("exit $((RANK * 3))");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, HasSubstr("\n"
                                    "FAIL sh.Program.main\n"
                                    "  rank 1 failed: exit code 3\n"
                                    "  rank 1: failed\n"
                                    "    exit code 3\n"
                                    "  rank 0: passed\n"
                                    "  repeat: distrun test sh.Program.main -- sh -c 'exit $((RANK "
                                    "* 3))'\n"));
}

TEST_F(TestedProgramTest, FailsIfASignalKillsARank) {
  const auto result = run_script("[ $RANK = 0 ] || kill -SEGV $$");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, HasSubstr("rank 1 crashed: signal SIGSEGV (11)\n"));
}

TEST_F(TestedProgramTest, AStatusOfTestSkipsIsASkip) {
  const auto skipped = run_script("exit 77");
  EXPECT_EQ(skipped.end, ProcessEnd(ExitedWith{4}));
  EXPECT_THAT(skipped.out, HasSubstr("sh.Program.main: exit code 77: needs 2 GPUs\n"));
  const auto by_one = run_script("exit $((RANK * 77))");
  EXPECT_EQ(by_one.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(by_one.out, HasSubstr("diverged: rank 1 skipped, rank 0 did not\n"));
}

TEST_F(TestedProgramTest, NprocIsTheNumberOfRanksAndPartOfTheRepeatCommand) {
  const auto result = run_script("echo of $WORLD_SIZE; exit 1", {"--nproc", "3"});
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("[ranks 0-2] of 3\n"),
                    HasSubstr("repeat: distrun test --nproc 3 sh.Program.main -- sh -c")));
}

TEST_F(TestedProgramTest, RanksMeetInAStore) {
  const auto result = run_script(
      "[ \"$MASTER_ADDR:$MASTER_PORT\" = \"$DISTRUN_STORE\" ] && \"$DISTRUN\" store set k$RANK x "
      "&& "
      "\"$DISTRUN\" store wait --timeout 60 k0 k1 k2",
      {"--nproc", "3"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.out << result.err;
}

TEST_F(TestedProgramTest, ARetryHasAnEmptyStore) {
  const auto result = run_script(
      "\"$DISTRUN\" store get seen || \"$DISTRUN\" store set seen yes && echo set; exit 1",
      {"--nproc", "1", "--retries", "1", "--json", folder_.path() + "/results"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  std::ifstream file(folder_.path() + "/results");
  const auto test = nlohmann::json::parse(file)["tests"][0];
  EXPECT_EQ(test["earlier_attempts"][0]["ranks"][0]["output"], "set\n");
  EXPECT_EQ(test["ranks"][0]["output"], "set\n");
}

TEST_F(TestedProgramTest, RanksRunInTheFolderOfTheCommand) {
  const auto result =
      testing::run_program({"sh", "-c", "cd \"$1\" && exec \"$DISTRUN\" test --show-output -- pwd",
                            "sh", folder_.path()},
                           options_);
  EXPECT_THAT(result.out, HasSubstr("[ranks 0, 1] " + folder_.path() + "\n"));
}

TEST_F(TestedProgramTest, ARankThatHangsIsNamedWithItsPlace) {
  const auto result = run_script("[ $RANK = 0 ] || exec sleep 1000", {"--timeout", "3"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, AllOf(HasSubstr("timed out: rank 1 hung in "), HasSubstr("nanosleep"),
                                HasSubstr("rank 0: passed\n"), Not(HasSubstr("does not answer"))));
}

TEST_F(TestedProgramTest, AHangBelowAShellIsShownWithItsPlace) {
  const auto result = run_script("\"$HUNG\" pause; exit $?", {"--nproc", "1", "--timeout", "3"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, AllOf(HasSubstr("timed out: rank 0 hung in hung::load_batch"),
                                Not(HasSubstr("leaked"))));
}

TEST_F(TestedProgramTest, RanksHaveNoVariablesOfAnOuterRun) {
  for (const char* name :
       {"DISTRUN_INIT_METHOD", "DISTRUN_OPERATIONS", "TORCHELASTIC_ERROR_FILE"}) {
    options_.environment.set(name, "outer");
  }
  const auto result = run_script("env", {"--nproc", "1", "--show-output"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("TORCHELASTIC_RUN_ID=none\n"),
                                HasSubstr("GROUP_RANK=0\n"), Not(HasSubstr("=outer"))));
}

TEST_F(TestedProgramTest, APythonFileWithoutTestsCanBeAProgram) {
  const std::string file = folder_.path() + "/check.py";
  std::ofstream(file) << "print('checked')\n";
  const auto result = test({"--", "python3", file});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{4}));
  EXPECT_THAT(result.err + result.out, HasSubstr("distrun test -- env python3 " + file + "\n"));
  EXPECT_EQ(test({"--", "env", "python3", file}).end, ProcessEnd(ExitedWith{0}));
}

TEST_F(TestedProgramTest, AProcessThatARankLeavesIsALeak) {
  const auto result = run_script("sleep 1000 & exit 0", {"--nproc", "1"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, HasSubstr("rank 0 failed: leaked processes: "));
}

TEST_F(TestedProgramTest, RejectsWhatAProgramCannotHave) {
  const auto backend = test({"--backend", "nccl", "--", "true"});
  EXPECT_EQ(backend.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(backend.err,
            "distrun test: --backend: a program after -- chooses its own backend; remove "
            "--backend\nTry 'distrun test --help'.\n");
  const auto missing = test({"--", "./no_such_program"});
  EXPECT_EQ(missing.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(missing.err, "distrun test: ./no_such_program: no such file\n");
}

TEST_F(TestedProgramTest, TheCommandOfTheTestHostIsNoCommandForPeople) {
  const auto result = testing::run_program({DISTRUN_PROGRAM, "test-program-host", "1", "true"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, HasSubstr("test-program-host"));
}

}  // namespace
}  // namespace distrun
