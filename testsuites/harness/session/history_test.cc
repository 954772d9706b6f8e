#include "testsuites/harness/session/history.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/test/folder.h"
#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const char* const kId = "gloo.CommTest.test_x";

TestResult took(int ms, const std::string& name = "test_x") {
  TestResult result = passed_test(name);
  result.attempts[0].time = milliseconds(ms);
  return result;
}

TestResult interrupted(const std::string& name, bool started) {
  TestResult result = failed_test(name);
  result.status = TestStatus::kInterrupted;
  if (!started) result.attempts.clear();
  return result;
}

History after(std::vector<std::vector<TestResult>> runs) {
  History history;
  for (auto& results : runs) history = updated(std::move(history), {.results = std::move(results)});
  return history;
}

TEST(HistoryTest, TimesAreAnExponentialAverage) {
  EXPECT_EQ(after({}).time_of(kId), std::nullopt);
  EXPECT_EQ(after({{took(100)}}).time_of(kId), milliseconds(100));
  EXPECT_EQ(after({{took(100)}, {took(200)}}).time_of(kId), milliseconds(130));
  EXPECT_EQ(after({{took(100)}, {took(200)}, {took(130)}}).time_of(kId), milliseconds(130));
}

TEST(HistoryTest, ClampsTimesToADay) {
  EXPECT_EQ(after({{took(-1)}}).time_of(kId), milliseconds(0));
  EXPECT_EQ(after({{took(1'000'000'000)}}).time_of(kId), std::chrono::hours(24));
}

TEST(HistoryTest, OnlyPassedAttemptsCountForTheTime) {
  EXPECT_EQ(after({{took(100)}, {failed_test("test_x")}}).time_of(kId), milliseconds(100));
  EXPECT_EQ(after({{failed_test("test_x")}}).time_of(kId), std::nullopt);
  EXPECT_EQ(after({{flaky_test("test_x")}}).time_of(kId), milliseconds(123)) << "of the last one";
  EXPECT_EQ(after({{took(100)}, {skipped_test("test_x", "")}}).time_of(kId), milliseconds(100));
}

TEST(HistoryTest, AFailedTestStaysFailedUntilItPasses) {
  EXPECT_THAT(after({{failed_test("a"), took(1, "b")}}).failed(), ElementsAre("gloo.CommTest.a"));
  EXPECT_THAT(after({{failed_test("a")}, {took(1, "b")}, {failed_test("c")}}).failed(),
              ElementsAre("gloo.CommTest.a", "gloo.CommTest.c"));
  EXPECT_THAT(after({{failed_test("a")}, {took(1, "a")}}).failed(), IsEmpty());
  EXPECT_THAT(after({{failed_test("a")}, {flaky_test("a")}}).failed(), IsEmpty());
}

TEST(HistoryTest, OnlyASkipByTheTestItselfEndsAFailure) {
  TestResult by_itself = skipped_test("a", "");
  by_itself.attempts = {{.status = TestStatus::kSkipped}};
  EXPECT_THAT(after({{failed_test("a")}, {by_itself}}).failed(), IsEmpty());
  EXPECT_THAT(after({{failed_test("a")}, {skipped_test("a", "")}}).failed(),
              ElementsAre("gloo.CommTest.a"));
  EXPECT_THAT(after({{skipped_test("a", "")}}).failed(), IsEmpty());
}

TEST(HistoryTest, MergesTheTestsOfAllRuns) {
  const History history = after({{took(100, "a")}, {took(50, "b")}});
  EXPECT_EQ(history.time_of("gloo.CommTest.a"), milliseconds(100));
  EXPECT_EQ(history.time_of("gloo.CommTest.b"), milliseconds(50));
}

TEST(HistoryTest, AnInterruptedTestHasFailed) {
  for (const bool started : {false, true}) {
    const History history =
        after({{took(1, "b")}, {interrupted("a", started), interrupted("b", started)}});
    EXPECT_THAT(history.failed(), ElementsAre("gloo.CommTest.a", "gloo.CommTest.b"));
  }
}

TEST(HistoryTest, OneFailedRepetitionIsAFailure) {
  EXPECT_THAT(after({{took(1), failed_test("test_x"), took(1)}}).failed(), ElementsAre(kId));
  EXPECT_THAT(after({{failed_test("test_x")}, {took(1), took(1)}}).failed(), IsEmpty());
}

TEST(HistoryTest, ARunWithoutTestsChangesNothing) {
  EXPECT_THAT(after({{failed_test("test_x")}, {}}).failed(), ElementsAre(kId));
}

TEST(HistoryTest, ForgetsTestsThatHaveNotRunForLongest) {
  std::vector<TestResult> most(History::kTestsMax - 1), two = {took(1, "new"), took(1, "newer")};
  for (std::size_t i = 0; i < most.size(); ++i) most[i].test.id = "s.C.t" + std::to_string(i);
  const History history = after({{took(1, "oldest")}, most, two});
  EXPECT_EQ(history.tests.size(), History::kTestsMax);
  EXPECT_FALSE(history.tests.contains("gloo.CommTest.oldest"));
  EXPECT_TRUE(history.tests.contains("gloo.CommTest.new"));
  EXPECT_TRUE(history.tests.contains("gloo.CommTest.newer"));
}

TEST(HistoryJsonTest, SurvivesWritingAndReading) {
  const History history = after({{took(100), failed_test("a")}, {failed_test("a")}});
  EXPECT_EQ(to_json(history), R"({
 "runs": 2,
 "tests": {
  "gloo.CommTest.a": {
   "failed": true,
   "run": 2
  },
  "gloo.CommTest.test_x": {
   "failed": false,
   "run": 1,
   "time_us": 100000
  }
 }
}
)");
  const History read = parse_history(to_json(history)).value();
  EXPECT_EQ(read.runs, history.runs);
  EXPECT_EQ(read.tests, history.tests);
}

TEST(HistoryJsonTest, AcceptsIdsOfAnyBytes) {
  EXPECT_TRUE(parse_history(to_json(after({{took(1, "\xff")}}))));
}

TEST(HistoryJsonTest, IgnoresInvalidEntries) {
  const History history = parse_history(R"({"runs": 3, "tests": {
      "a": 7, "a2": [], "a3": null, "b": {}, "c": {"run": 4}, "d": {"run": 0}, "e": {"run": "1"},
      "f": {"run": 1, "time_us": -1}, "g": {"run": 1, "time_us": 1e300, "failed": "yes"},
      "h": {"run": 3, "time_us": 5, "failed": true, "more": []}}})")
                              .value();
  EXPECT_EQ(history.tests.size(), 3U);
  EXPECT_EQ(history.tests.at("f"), (PastTest{.run = 1}));
  EXPECT_EQ(history.tests.at("g"), (PastTest{.run = 1}));
  EXPECT_EQ(history.tests.at("h"), (PastTest{microseconds(5), 3, true}));
}

TEST(HistoryJsonTest, RejectsMalformedHistories) {
  const auto said = [](std::string_view json) { return parse_history(json).error().message; };
  EXPECT_EQ(said(""), "not JSON (is it truncated?)");
  for (const char* json : {"[]", "{}", R"({"runs": 1})", R"({"runs": 1.5, "tests": {}})",
                           R"({"runs": 1, "tests": []})"}) {
    EXPECT_EQ(said(json), "it has no \"runs\" or no \"tests\"") << json;
  }
  for (const char* runs : {"-1", "9223372036854775807", "18446744073709551615"}) {
    EXPECT_EQ(said(fmt::format(R"({{"runs": {}, "tests": {{}}}})", runs)),
              "its \"runs\" is out of bounds")
        << runs;
  }
}

class HistoryFileTest : public ::testing::Test {
 protected:
  HistoryFileTest() { path_ = folder_ + "/history.json"; }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
  std::string path_;
};

TEST_F(HistoryFileTest, AddsRunsToTheFile) {
  EXPECT_EQ(read_history(path_).notice, "");
  ASSERT_TRUE(add_to_history(path_, {.results = {failed_test("a")}}).has_value());
  ASSERT_TRUE(add_to_history(path_, {.results = {took(5), failed_test("b")}}).has_value());
  const auto [history, notice] = read_history(path_);
  EXPECT_EQ(notice, "");
  EXPECT_EQ(history.runs, 2);
  EXPECT_EQ(history.time_of(kId), milliseconds(5));
  EXPECT_THAT(history.failed(), ElementsAre("gloo.CommTest.a", "gloo.CommTest.b"));
}

TEST_F(HistoryFileTest, ReplacesABrokenFile) {
  std::ofstream(path_) << "{\"runs\": 1, \"te";
  EXPECT_EQ(read_history(path_).history.runs, 0);
  EXPECT_EQ(read_history(path_).notice,
            "the history of earlier runs is ignored: " + path_ + ": not JSON (is it truncated?)");
  ASSERT_TRUE(add_to_history(path_, {.results = {took(5)}}).has_value());
  EXPECT_EQ(read_history(path_).notice, "");
  EXPECT_EQ(read_history(path_).history.runs, 1);
}

TEST_F(HistoryFileTest, ReportsAnUnreadableFile) {
  std::filesystem::create_directory(path_);
  EXPECT_THAT(read_history(path_).notice,
              StartsWith("the history of earlier runs is ignored: " + path_));
}

TEST_F(HistoryFileTest, FailsIfTheFileCannotBeWritten) {
  EXPECT_EQ(add_to_history(folder_ + "/no/x", {.results = {took(5)}}).error().message,
            "write " + folder_ + "/no/x: no such file or directory");
}

}  // namespace
}  // namespace distrun
