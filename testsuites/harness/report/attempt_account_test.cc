#include "testsuites/harness/report/attempt_account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Four ranks that passed.
AttemptResult attempt() {
  AttemptResult result;
  for (int rank = 0; rank < 4; ++rank) result.ranks.push_back(passed_rank(rank));
  return result;
}

std::string told(const AttemptResult& result) { return account_of(result, WithOutput::kYes); }

TEST(AttemptAccountTest, ReportsEverythingAboutARank) {
  AttemptResult result = attempt();
  result.culprits = {2};
  result.ranks[2] = {
      .rank = 2,
      .status = RankStatus::kCrashed,
      .failures = {{"suites/comm.cc", 14, "Expected equality:\n  1\n  2"}, {"", 0, "somewhere"}},
      .end = "signal SIGSEGV (11)",
      .stands_at = "#0 wait()\n#1 test()\n",
      .output = "hello\nworld",
      .leaked = {"77 (sleep)", "78 (sh)"}};
  EXPECT_EQ(told(result),
            "rank 2: crashed\n"
            "  suites/comm.cc:14: Expected equality:\n"
            "        1\n"
            "        2\n"
            "  somewhere\n"
            "  ended: signal SIGSEGV (11)\n"
            "  stood at:\n"
            "    #0 wait()\n"
            "    #1 test()\n"
            "  leaked processes: 77 (sleep), 78 (sh)\n"
            "ranks 0, 1, 3: passed\n"
            "output:\n"
            "  [rank 2] hello\n"
            "  [rank 2] world\n");
}

// Four ranks that hung: three in a collective.
AttemptResult hung() {
  AttemptResult result = attempt();
  for (RankResult& rank : result.ranks) {
    rank = {.rank = rank.rank, .status = RankStatus::kTimedOut, .stands_at = "told\n#0 f()\n"};
    rank.told = rank.rank == 1 ? "no collective has run\n" : "allreduce has not completed\n";
  }
  result.culprits = {1};
  result.where = {.line = "rank 1 in load (a.cc:1); ranks 0, 2, 3 wait in all_reduce",
                  .stacks = "  rank 1\n    load (a.cc:1)\n"};
  return result;
}

TEST(AttemptAccountTest, TheStacksOfAllRanksAreOneTree) {
  AttemptResult result = hung();
  result.reason = "timed out: ranks 0-3 hung: rank 1 had not entered it";
  const std::string expected =
      "rank 1: did not end\n"
      "  no collective has run\n"
      "ranks 0, 2, 3: did not end\n"
      "  allreduce has not completed\n"
      "where the ranks were: rank 1 in load (a.cc:1); ranks 0, 2, 3 wait in all_reduce\n"
      "  rank 1\n"
      "    load (a.cc:1)\n";
  EXPECT_EQ(told(result), expected);
  EXPECT_EQ(account_of(result, WithOutput::kNo), expected);
}

TEST(AttemptAccountTest, TheTreeDoesNotRepeatTheReason) {
  AttemptResult result = hung();
  result.reason = "timed out: ranks 0-3 hung: " + result.where.line;
  EXPECT_THAT(told(result), HasSubstr("\nwhere the ranks were:\n  rank 1\n"));
  result.where.line = "ranks 0-3 in load (a.cc:1)";
  result.reason = "timed out: ranks 0-3 hung in load (a.cc:1)";
  EXPECT_THAT(told(result), HasSubstr("\nwhere the ranks were:\n"));
}

TEST(AttemptAccountTest, ReportsHowEachRankEnded) {
  AttemptResult result = attempt();
  result.ranks[0] = {.rank = 0, .status = RankStatus::kFailed};
  result.ranks[1] = {.rank = 1, .status = RankStatus::kSkipped, .skip_reason = "no room"};
  result.ranks[2] = {.rank = 2, .status = RankStatus::kTimedOut};
  result.ranks[3] = {.rank = 3, .status = RankStatus::kExited, .end = "exit code 0"};
  EXPECT_EQ(told(result),
            "rank 0: failed: made no assertion\n"
            "rank 1: skipped: no room\n"
            "rank 2: did not end\n"
            "rank 3: exited during its test\n"
            "  ended: exit code 0\n");
}

TEST(AttemptAccountTest, CulpritsComeFirstInTheirOrder) {
  AttemptResult result = attempt();
  for (RankResult& rank : result.ranks) rank.end = std::to_string(rank.rank);
  result.culprits = {3, 1};
  EXPECT_EQ(told(result),
            "rank 3: passed\n  ended: 3\nrank 1: passed\n  ended: 1\n"
            "rank 0: passed\n  ended: 0\nrank 2: passed\n  ended: 2\n");
}

TEST(AttemptAccountTest, EqualRanksShareOneEntryAtTheFirst) {
  AttemptResult result = attempt();
  result.culprits = {3, 2};
  result.ranks[2].end = "exit code 1";
  EXPECT_EQ(told(result),
            "ranks 0, 1, 3: passed\n"
            "rank 2: passed\n"
            "  ended: exit code 1\n");
}

TEST(AttemptAccountTest, EqualLinesOfOutputAppearOnceAndThoseOfCulpritsFirst) {
  AttemptResult result = attempt();
  result.culprits = {2};
  for (RankResult& rank : result.ranks) rank.output = "same\n" + std::to_string(rank.rank);
  EXPECT_EQ(told(result),
            "ranks 0-3: passed\n"
            "output:\n"
            "  [ranks 0-3] same\n"
            "  [rank 2] 2\n"
            "  [rank 0] 0\n"
            "  [rank 1] 1\n"
            "  [rank 3] 3\n");
  EXPECT_EQ(account_of(result, WithOutput::kNo), "ranks 0-3: passed\n");
}

TEST(AttemptAccountTest, ManyFailuresAndLinesAreShortened) {
  AttemptResult result = attempt();
  result.ranks.resize(1);
  for (int i = 1; i <= 12; ++i) result.ranks[0].failures.push_back({"a.cc", i, "x"});
  for (int i = 1; i <= 102; ++i) result.ranks[0].output += std::to_string(i) + '\n';
  const std::string text = told(result);
  EXPECT_NE(text.find("  a.cc:10: x\n  2 more failures; --json FILE writes them\noutput:\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("[rank 0] 20\n"
                      "  [rank 0] … 2 lines left out; --json FILE writes them\n"
                      "  [rank 0] 23\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("[rank 0] 102\n")) << text;
  EXPECT_NE(account_of(result, WithOutput::kNo).find("a.cc:12: x\n"), std::string::npos);

  result.ranks[0].output = std::string(99, '\n') + "last";
  EXPECT_EQ(told(result).find("… "), std::string::npos) << "100 lines are shown";
}

TEST(AttemptAccountTest, SaysHowMuchOfWhatIsLeftOutIsInTheFiles) {
  AttemptResult result = attempt();
  result.ranks.resize(1);
  RankResult& rank = result.ranks[0];
  for (int i = 1; i <= 100; ++i) rank.failures.push_back({"a.cc", i, "x"});
  rank.failures.push_back({"", 0, "200 more, which are not kept"});
  rank.failures_lost = 200;
  rank.output_lost = {.lines = 1000, .bytes = 20'000};
  for (int i = 0; i < 30; ++i) rank.output += "x\n";
  rank.output += gap_line(rank.output_lost) + '\n';
  for (int i = 0; i < 90; ++i) rank.output += "x\n";
  EXPECT_THAT(told(result), HasSubstr("x\n  290 more failures; --json FILE writes 90 of them\n"));
  EXPECT_THAT(told(result),
              HasSubstr("… 1020 lines left out; --json FILE writes 20 of them\n  [rank 0] x\n"));
  EXPECT_THAT(account_of(result, WithOutput::kNo), HasSubstr("200 more, which are not kept\n"));

  rank.output += std::string(1000, '\n');
  EXPECT_THAT(told(result), HasSubstr("… 2020 lines left out; --json FILE writes 1020 of them\n"));
}

TEST(AttemptAccountTest, LongLinesAreCutOnTheConsole) {
  AttemptResult result = attempt();
  result.ranks.resize(1);
  result.ranks[0].output = std::string(499, 'a') + "é" + std::string(1000, 'b') + "\nnext\n";
  result.ranks[0].failures = {{"a.cc", 1, std::string(2000, 'c') + "\nd"}};
  const std::string text = told(result);
  EXPECT_THAT(text, HasSubstr("[rank 0] " + std::string(499, 'a') + "…[1002 bytes left out]\n"));
  EXPECT_THAT(text, HasSubstr("ccc…[1510 bytes left out]\n      d\n"));
  EXPECT_THAT(text, HasSubstr("[rank 0] next\n"));
  EXPECT_THAT(output_of(result), Not(HasSubstr("left out")));
  EXPECT_THAT(account_of(result, WithOutput::kNo), Not(HasSubstr("left out")));

  result.ranks[0].output = std::string(510, 'a');
  EXPECT_THAT(merged_output_of(result), Not(HasSubstr("left out"))) << "the note is longer";
}

TEST(AttemptAccountTest, CrashesOfPythonAreShortenedOnTheConsole) {
  AttemptResult result = attempt();
  result.ranks.resize(1);
  result.ranks[0].output =
      "Fatal Python error: Aborted\n\nCurrent thread 0x7 (most recent call first):\n"
      "  File \"/a_test.py\", line 7 in work\n\nExtension modules: torch._C (total: 1)\n";
  EXPECT_EQ(merged_output_of(result),
            "[rank 0] Fatal Python error: Aborted\n"
            "[rank 0]   work (a_test.py:7)\n"
            "[rank 0] … 4 lines left out; --json FILE writes them\n");
  EXPECT_THAT(output_of(result), HasSubstr("Extension modules: "));

  result.ranks[0] = {.rank = 0,
                     .status = RankStatus::kCrashed,
                     .failures = {{.message = "signal SIGABRT (6) in work (a_test.py:7)"}},
                     .end = "signal SIGABRT (6)"};
  EXPECT_EQ(told(result), "rank 0: crashed\n  signal SIGABRT (6) in work (a_test.py:7)\n");
}

TEST(AttemptAccountTest, ControlCharactersAreEscaped) {
  AttemptResult result = attempt();
  result.ranks.resize(1);
  result.ranks[0].output = "\x1b[31mred\x7f\tx\r\n50%\r60%\n\nlast";
  EXPECT_EQ(output_of(result),
            "[rank 0] \\x1b[31mred\\x7f\tx\n"
            "[rank 0] 50%\\x0d60%\n"
            "[rank 0] \n"
            "[rank 0] last\n");
  result.ranks[0].failures = {{"a.cc", 1, "say \x07"}};
  EXPECT_EQ(account_of(result, WithOutput::kNo), "rank 0: passed\n  a.cc:1: say \\x07\n");
}

TEST(AttemptAccountTest, OutputIsGroupedByRank) {
  AttemptResult result = attempt();
  result.ranks[0].output = "a\nb\n";
  result.ranks[3].output = "a\n";
  EXPECT_EQ(output_of(result), "[rank 0] a\n[rank 0] b\n[rank 3] a\n");
}

TEST(AttemptAccountTest, AnAttemptThatWasNotStartedHasNoText) {
  EXPECT_EQ(told({}), "");
  EXPECT_EQ(output_of({}), "");
}

}  // namespace
}  // namespace distrun
