#include "testsuites/harness/report/status_line.h"

#include <gtest/gtest.h>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const StatusLine::Time kLineStart{std::chrono::hours(5)};

class StatusLineTest : public ::testing::Test {
 protected:
  void begin(const std::string& id, int repetition = 0) {
    line_.happened(AttemptBegun{.id = id, .repetition = repetition});
  }
  void end_attempt(const std::string& id, int repetition = 0) {
    line_.happened(AttemptEnded{.id = id, .repetition = repetition});
  }
  void end(TestResult result) {
    end_attempt(result.test.id, result.repetition);
    line_.happened(TestEnded{std::move(result)});
  }
  void tick(milliseconds since_start) { line_.tick(kLineStart + since_start); }
  std::string text(int columns = 200) { return line_.text(columns); }

  StatusLine line_;
};

TEST_F(StatusLineTest, ShowsTestsDoneAndRunningOldestFirst) {
  line_.happened(TestsBegun{.tests = 3});
  tick(seconds(0));
  EXPECT_EQ(text(), "0/3");
  begin("s.C.b");
  tick(seconds(0));
  begin("s.C.a");
  EXPECT_EQ(text(), "0/3: s.C.b, s.C.a");
  tick(milliseconds(999));
  EXPECT_EQ(text(), "0/3: s.C.b, s.C.a");
  tick(milliseconds(65999));
  EXPECT_EQ(text(), "0/3: s.C.b 1 min 05 s, s.C.a 1 min 05 s");
  end_attempt("s.C.b");
  line_.happened(TestEnded{failed_test("b")});
  EXPECT_EQ(text(), "1/3, 1 failed: s.C.a 1 min 05 s");
}

TEST_F(StatusLineTest, AnAgeCountsFromTheFirstTickAfterTheStart) {
  line_.happened(TestsBegun{.tests = 1});
  begin("s.C.a");
  EXPECT_EQ(text(), "0/1: s.C.a");
  tick(seconds(0));
  tick(seconds(2));
  EXPECT_EQ(text(), "0/1: s.C.a 2 s");
}

TEST_F(StatusLineTest, CountsSkippedAndFlakyTestsAsDoneNotFailed) {
  line_.happened(TestsBegun{.tests = 4});
  line_.happened(TestEnded{skipped_test("a", "")});
  line_.happened(TestEnded{flaky_test("b")});
  line_.happened(TestEnded{passed_test("c")});
  EXPECT_EQ(text(), "3/4");
  TestResult interrupted = failed_test("d");
  interrupted.status = TestStatus::kInterrupted;
  line_.happened(TestEnded{interrupted});
  EXPECT_EQ(text(), "4/4, 1 failed");
}

TEST_F(StatusLineTest, ANewAttemptResetsTheAge) {
  line_.happened(TestsBegun{.tests = 1, .attempts_max = 2});
  begin("s.C.a");
  tick(seconds(0));
  tick(seconds(9));
  end_attempt("s.C.a");
  EXPECT_EQ(text(), "0/1");
  begin("s.C.a");
  tick(seconds(9));
  tick(seconds(10));
  EXPECT_EQ(text(), "0/1: s.C.a 1 s");
}

TEST_F(StatusLineTest, DistinguishesRepetitions) {
  line_.happened(TestsBegun{.tests = 2, .repetitions = 2});
  begin("s.C.a", 0);
  begin("s.C.a", 1);
  EXPECT_EQ(text(), "0/2: s.C.a #1, s.C.a #2");
  end_attempt("s.C.a", 1);
  EXPECT_EQ(text(), "0/2: s.C.a #1");
}

TEST_F(StatusLineTest, EstimatesTimeLeftFromEarlierRuns) {
  line_.happened(TestsBegun{.tests = 100, .estimate = seconds(20)});
  tick(seconds(0));
  EXPECT_EQ(text(), "0/100, about 20 s left");
  tick(seconds(12));
  EXPECT_EQ(text(), "0/100, about 8 s left");
  tick(milliseconds(19500));
  EXPECT_EQ(text(), "0/100");
}

TEST_F(StatusLineTest, EstimatesTimeLeftFromThisRunOnceEnoughTestsEnded) {
  line_.happened(TestsBegun{.tests = 20});
  tick(seconds(0));
  tick(seconds(10));
  for (int i = 0; i < 4; ++i) end(passed_test("a"));
  EXPECT_EQ(text(), "4/20");
  end(passed_test("a"));
  EXPECT_EQ(text(), "5/20, about 30 s left");
  for (int i = 0; i < 15; ++i) end(passed_test("a"));
  EXPECT_EQ(text(), "20/20");
}

TEST_F(StatusLineTest, FitsTheColumns) {
  line_.happened(TestsBegun{.tests = 1});
  begin("s.C.\u00e9\u00e9\u00e9");
  EXPECT_EQ(text(12), "0/1: s.C.\u00e9\u00e9\u00e9");
  EXPECT_EQ(text(11), "0/1: s.C.\u00e9…");
  EXPECT_EQ(text(3), "0/…");
  EXPECT_EQ(text(1), "…");
  EXPECT_EQ(text(0), "");
  EXPECT_EQ(text(-1), "");
}

}  // namespace
}  // namespace distrun
