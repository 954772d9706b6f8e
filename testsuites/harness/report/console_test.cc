#include "testsuites/harness/report/console.h"

#include <gtest/gtest.h>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const StatusLine::Time kConsoleStart{std::chrono::hours(5)};

// The text that each call writes.
class Written {
 public:
  explicit Written(Console::Options options)
      : console(options, [this](std::string_view text) { text_ += text; }) {}

  std::string after(const TestEvent& event) {
    console.happened(event);
    return take();
  }
  std::string after_tick(milliseconds since_start) {
    console.tick(kConsoleStart + since_start);
    return take();
  }
  std::string take() { return std::exchange(text_, ""); }

  Console console;

 private:
  std::string text_;
};

TestResult interrupted_test(std::string name) {
  TestResult result = skipped_test(std::move(name), "the run was ended");
  result.status = TestStatus::kInterrupted;
  return result;
}

TEST(ConsoleTest, StartsWithTestsRanksAndSeed) {
  Written plain({});
  EXPECT_EQ(plain.after(TestsBegun{.tests = 12, .jobs = 4, .seed = 7}),
            "running 12 tests, at most 4 ranks at a time, seed 7\n");
  EXPECT_EQ(plain.after(TestsBegun{.tests = 1, .jobs = 1}),
            "running 1 test, at most 1 rank at a time, seed 0\n");
}

TEST(ConsoleTest, PrintsALineForEachTestThatEnds) {
  Written plain({});
  plain.after(TestsBegun{.tests = 4, .attempts_max = 3});
  EXPECT_EQ(plain.after(AttemptBegun{.id = "gloo.CommTest.a"}), "");
  EXPECT_EQ(plain.after(AttemptEnded{.id = "gloo.CommTest.a"}), "");
  EXPECT_EQ(plain.after(TestEnded{passed_test("a")}), "PASS [   0.123s] gloo.CommTest.a\n");
  EXPECT_EQ(plain.after(TestEnded{failed_test("b")}),
            "FAIL [   1.204s] gloo.CommTest.b: rank 1 failed: comm.cc:14\n");
  EXPECT_EQ(plain.after(TestEnded{skipped_test("c", "needs 2 GPUs,\nand has 0")}),
            "SKIP [   0.000s] gloo.CommTest.c: needs 2 GPUs,\\x0aand has 0\n");
  EXPECT_EQ(plain.after(AttemptEnded{
                .id = "gloo.CommTest.d", .result = failed_attempt(), .is_last = false}),
            "TRY 1 FAIL [   1.204s] gloo.CommTest.d: rank 1 failed: comm.cc:14\n");
  EXPECT_EQ(plain.after(TestEnded{flaky_test("d")}), "FLAKY 2/3 [   1.327s] gloo.CommTest.d\n");
  EXPECT_EQ(plain.after(TestsNoticed{"a host has died"}), "distrun: a host has died\n");
}

TEST(ConsoleTest, RepetitionsAreNumbered) {
  Written plain({});
  plain.after(TestsBegun{.tests = 2, .repetitions = 2});
  TestResult second = passed_test("a");
  second.repetition = 1;
  EXPECT_EQ(plain.after(TestEnded{second}), "PASS [   0.123s] gloo.CommTest.a #2\n");
}

TEST(ConsoleTest, LastLineCountsTheResults) {
  Written plain({});
  plain.after(TestsBegun{});
  const TestsSummary summary{3, 1, 2, 0, milliseconds(1250)};
  EXPECT_EQ(plain.after(TestsEnded{.summary = summary}),
            "\n6 tests in 1.250 s\n3 passed, 1 failed, 2 skipped\n");
  // Whether or not results were kept.
  EXPECT_EQ(plain.after(TestsEnded{.summary = {3, 1, 2, 1, milliseconds(0)},
                                   .results = {passed_test("a")}}),
            "\n6 tests in 0.000 s\n3 passed (1 flaky), 1 failed, 2 skipped\n");
}

TEST(ConsoleTest, PrintsFailuresInFullAtTheEnd) {
  Written plain({});
  plain.after(TestsBegun{.tests = 2});
  const TestsEnded ended{.summary = {1, 1, 0, 0, seconds(2)},
                         .results = {passed_test("a"), failed_test("b")}};
  EXPECT_EQ(plain.after(ended),
            "\nFAIL gloo.CommTest.b (suites/comm.cc:12)\n"
            "  rank 1 failed: comm.cc:14\n"
            "  rank 1: failed\n"
            "    suites/comm.cc:14: Expected equality:\n"
            "          1\n"
            "          2\n"
            "  rank 0: passed\n"
            "  output:\n"
            "    [ranks 0, 1] hello\n"
            "    [rank 1] world\n"
            "  repeat: distrun test gloo.CommTest.b\n"
            "\n2 tests in 2.000 s\n"
            "1 passed, 1 failed, 0 skipped\n");
}

TEST(ConsoleTest, PrintsTheLastFailedAttemptInFullAndFlakyTestsFirst) {
  Written plain({});
  plain.after(TestsBegun{.tests = 2, .attempts_max = 2});
  TestResult failed = failed_test("b");
  failed.attempts.push_back(failed_attempt(2));
  for (AttemptResult& attempt : failed.attempts) attempt.ranks.resize(1);
  TestResult flaky = flaky_test("a");
  flaky.attempts[0].ranks.resize(1);
  flaky.test.file = "";
  EXPECT_EQ(
      plain.after(TestsEnded{.summary = {1, 1, 0, 1, seconds(2)}, .results = {failed, flaky}}),
      "\nFLAKY 2/2 gloo.CommTest.a\n"
      "  attempt 1: rank 1 failed: comm.cc:14\n"
      "  rank 0: passed\n"
      "  output:\n"
      "    [rank 0] hello\n"
      "  repeat: distrun test gloo.CommTest.a\n"
      "\nFAIL gloo.CommTest.b (suites/comm.cc:12)\n"
      "  attempt 1: rank 1 failed: comm.cc:14\n"
      "  attempt 2: rank 1 failed: comm.cc:14\n"
      "  rank 0: passed\n"
      "  output:\n"
      "    [rank 0] hello\n"
      "  repeat: distrun test gloo.CommTest.b\n"
      "\n2 tests in 2.000 s\n"
      "1 passed (1 flaky), 1 failed, 0 skipped\n");
}

TEST(ConsoleTest, ReportsWhyATestCouldNotStart) {
  Written plain({});
  plain.after(TestsBegun{});
  TestResult result = skipped_test("a", "fork: no\x1b room");
  result.status = TestStatus::kFailed;
  EXPECT_EQ(plain.after(TestsEnded{.summary = {0, 1, 0, 0, {}}, .results = {result}}),
            "\nFAIL gloo.CommTest.a (suites/comm.cc:12)\n"
            "  fork: no\\x1b room\n"
            "  repeat: distrun test gloo.CommTest.a\n"
            "\n1 test in 0.000 s\n"
            "0 passed, 1 failed, 0 skipped\n");
}

TEST(ConsoleTest, ReportsWhereRanksAre) {
  Written plain({});
  EXPECT_EQ(plain.after(PlacesRead{"a", 0, {"rank 0 in load (a.cc:1)", "  load (a.cc:1)\n"}}),
            "distrun: where the ranks of a are: rank 0 in load (a.cc:1)\n"
            "  load (a.cc:1)\n");
  EXPECT_EQ(plain.after(PlacesRead{"a", 0, {}}), "distrun: where the ranks of a are:\n");
}

TEST(ConsoleTest, CountsTestsThatDidNotRunWithoutListingThem) {
  Written plain({});
  plain.after(TestsBegun{});
  EXPECT_EQ(plain.after(TestEnded{interrupted_test("a")}), "");
  TestResult cut_off = failed_test("b");
  cut_off.status = TestStatus::kInterrupted;
  EXPECT_EQ(plain.after(TestEnded{cut_off}),
            "INTERRUPTED [   1.204s] gloo.CommTest.b: rank 1 failed: comm.cc:14\n");
  EXPECT_EQ(plain.after(TestsEnded{.summary = {1, 0, 0, 0, {}, 2},
                                   .results = {interrupted_test("a"), interrupted_test("c")}}),
            "\n3 tests in 0.000 s\n"
            "1 passed, 0 failed, 0 skipped, 2 not run\n");
}

TEST(ConsoleTest, ListsSeveralFailuresAgainAtTheEnd) {
  Written plain({});
  plain.after(TestsBegun{});
  const auto ends_with = [&](std::vector<TestResult> results) {
    const std::string text = plain.after(TestsEnded{.results = std::move(results)});
    const std::size_t list = text.find("\nfailed:\n");
    return list == text.npos ? "" : text.substr(list, text.find("\n\n", list) - list);
  };
  EXPECT_EQ(ends_with({failed_test("a"), passed_test("b")}), "");
  EXPECT_EQ(ends_with({failed_test("a"), interrupted_test("b"), failed_test("c")}),
            "\nfailed:\n"
            "  FAIL gloo.CommTest.a: rank 1 failed: comm.cc:14\n"
            "  FAIL gloo.CommTest.c: rank 1 failed: comm.cc:14");
  plain.after(TestsBegun{.repeat_command = "distrun test --failed gloo"});
  EXPECT_EQ(ends_with({failed_test("a")}), "");
  EXPECT_EQ(ends_with({failed_test("a"), failed_test("c")}),
            "\nfailed:\n"
            "  FAIL gloo.CommTest.a: rank 1 failed: comm.cc:14\n"
            "  FAIL gloo.CommTest.c: rank 1 failed: comm.cc:14\n"
            "  repeat: distrun test --failed gloo");
}

TEST(ConsoleTest, ListsTheSlowestTestsOnRequest) {
  Written plain({.durations = 2});
  plain.after(TestsBegun{});
  for (const int ms : {30, 2000, 10, 400}) {
    TestResult result = passed_test("t" + std::to_string(ms));
    result.time = milliseconds(ms);
    plain.after(TestEnded{result});
  }
  EXPECT_EQ(plain.after(TestsEnded{}),
            "\nslowest:\n"
            "  [   2.000s] gloo.CommTest.t2000\n"
            "  [   0.400s] gloo.CommTest.t400\n"
            "\n0 tests in 0.000 s\n"
            "0 passed, 0 failed, 0 skipped\n");
}

TEST(ConsoleTest, ShowsOutputOfPassedTestsOnRequest) {
  TestResult loud = passed_test("a");
  loud.attempts[0].ranks = {passed_rank(0, "x\ny"), passed_rank(1, "z")};
  Written quiet({}), shown({.show_output = true});
  EXPECT_EQ(quiet.after(TestEnded{loud}), "PASS [   0.123s] gloo.CommTest.a\n");
  EXPECT_EQ(shown.after(TestEnded{loud}),
            "PASS [   0.123s] gloo.CommTest.a\n"
            "    [rank 0] x\n    [rank 0] y\n    [rank 1] z\n");
  EXPECT_EQ(shown.after(TestEnded{failed_test("b")}),
            "FAIL [   1.204s] gloo.CommTest.b: rank 1 failed: comm.cc:14\n")
      << "its output follows at the end";
}

TEST(ConsoleTest, ColoursOnlyTheFirstWord) {
  Written colours({.colours = true});
  colours.after(TestsBegun{.attempts_max = 2});
  EXPECT_EQ(colours.after(TestEnded{passed_test("a")}),
            "\x1b[32mPASS\x1b[0m [   0.123s] gloo.CommTest.a\n");
  EXPECT_EQ(colours.after(TestEnded{flaky_test("a")}),
            "\x1b[33mFLAKY 2/2\x1b[0m [   1.327s] gloo.CommTest.a\n");
  EXPECT_EQ(colours.after(TestEnded{failed_test("b")}).substr(0, 13), "\x1b[31mFAIL\x1b[0m");
  EXPECT_EQ(colours.after(TestsEnded{.summary = {1, 0, 0, 0, {}}}),
            "\n1 test in 0.000 s\n1 passed, 0 failed, 0 skipped\n");
}

TEST(ConsoleTerminalTest, ErasesTheStatusLineBeforeOtherLines) {
  Written terminal({.terminal = true, .columns = 80});
  EXPECT_EQ(terminal.after(TestsBegun{.tests = 2, .jobs = 4}),
            "running 2 tests, at most 4 ranks at a time, seed 0\n0/2");
  EXPECT_EQ(terminal.after(AttemptBegun{.id = "gloo.CommTest.a"}), "\r\x1b[K0/2: gloo.CommTest.a");
  EXPECT_EQ(terminal.after(AttemptEnded{.id = "gloo.CommTest.a"}), "\r\x1b[K0/2");
  EXPECT_EQ(terminal.after(TestEnded{passed_test("a")}),
            "\r\x1b[KPASS [   0.123s] gloo.CommTest.a\n1/2");
  EXPECT_EQ(terminal.after(TestsNoticed{"what"}), "\r\x1b[Kdistrun: what\n1/2");
  EXPECT_EQ(terminal.after(TestsEnded{.summary = {2, 0, 0, 0, {}}}),
            "\r\x1b[K\n2 tests in 0.000 s\n2 passed, 0 failed, 0 skipped\n");
  EXPECT_EQ(terminal.after_tick(seconds(9)), "") << "nothing follows the last line";
}

TEST(ConsoleTerminalTest, ATickDrawsOnlyChanges) {
  Written terminal({.terminal = true, .columns = 80});
  terminal.after(TestsBegun{.tests = 1});
  terminal.after(AttemptBegun{.id = "s.C.a"});
  EXPECT_EQ(terminal.after_tick(seconds(0)), "");
  EXPECT_EQ(terminal.after_tick(milliseconds(900)), "");
  EXPECT_EQ(terminal.after_tick(milliseconds(1900)), "\r\x1b[K0/1: s.C.a 1 s");
}

TEST(ConsoleTerminalTest, TheStatusLineLeavesTheLastColumnFree) {
  Written terminal({.terminal = true, .columns = 11});
  terminal.after(TestsBegun{.tests = 1});
  EXPECT_EQ(terminal.after(AttemptBegun{.id = "s.C.a"}), "\r\x1b[K0/1: s.C.a");
  terminal.console.resize(10);
  EXPECT_EQ(terminal.take(), "\r\x1b[K0/1: s.C…");
}

TEST(ConsoleTest, MarksTestsThatTakeLong) {
  Written plain({.slow_after = seconds(10)});
  plain.after(TestsBegun{.tests = 2});
  plain.after(AttemptBegun{.id = "s.C.a"});
  EXPECT_EQ(plain.after_tick(seconds(0)), "");
  EXPECT_EQ(plain.after_tick(seconds(9)), "");
  EXPECT_EQ(plain.after_tick(seconds(10)), "SLOW [> 10.000s] s.C.a\n");
  EXPECT_EQ(plain.after_tick(seconds(19)), "");
  EXPECT_EQ(plain.after_tick(seconds(31)), "SLOW [> 30.000s] s.C.a\n");
  plain.after(AttemptEnded{.id = "s.C.a"});
  EXPECT_EQ(plain.after_tick(seconds(40)), "");
}

TEST(ConsoleTerminalTest, ShowsNoStatusLineWithoutATerminal) {
  Written plain({});
  plain.after(TestsBegun{.tests = 2});
  EXPECT_EQ(plain.after(AttemptBegun{.id = "s.C.a"}), "");
  EXPECT_EQ(plain.after_tick(seconds(9)), "");
}

}  // namespace
}  // namespace distrun
