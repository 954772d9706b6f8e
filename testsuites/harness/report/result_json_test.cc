#include "testsuites/harness/report/result_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;

// The only test of the document.
nlohmann::json written(TestResult result) {
  return nlohmann::json::parse(result_json({}, {.results = {std::move(result)}}))["tests"][0];
}

TEST(ResultJsonTest, StartsWithTheSummaryAndTheRun) {
  const TestsBegun begun{.jobs = 4, .binaries = {"a", "b"}, .seed = 18446744073709551615U};
  const TestsEnded ended{.summary = {3, 1, 2, 1, std::chrono::milliseconds(1250), 4}};
  EXPECT_EQ(result_json(begun, ended), R"({
 "summary": {"passed":3,"failed":1,"skipped":2,"flaky":1,"not_run":4,"seconds":1.25},
 "seed": 18446744073709551615,
 "jobs": 4,
 "binaries": ["a","b"],
 "tests": [
 ]
}
)");
}

TEST(ResultJsonTest, WritesEachTestOnOneLine) {
  const std::string text = result_json({}, {.results = {passed_test("a"), failed_test("b")}});
  EXPECT_EQ(nlohmann::json::parse(text)["tests"].size(), 2U);
  EXPECT_THAT(text, ContainsRegex("\n  [{]\"id\":\"gloo.CommTest.a\",.*[}],\n"
                                  "  [{]\"id\":\"gloo.CommTest.b\",.*[}]\n ]\n}\n$"));
}

TEST(ResultJsonTest, WritesEverythingAboutATest) {
  TestResult result = failed_test("test_x");
  result.repetition = 2;
  RankResult& rank = result.attempts[0].ranks[1];
  rank.skip_reason = "why";
  rank.end = "signal SIGSEGV (11)";
  rank.stands_at = "#0 here";
  rank.leaked = {"77 (sleep)"};
  rank.collectives = {{.op = "allreduce", .sizes = {{4, 2}, {}}, .dtype = "Float", .count = 3}};
  EXPECT_EQ(written(result), nlohmann::json::parse(R"-({
    "id": "gloo.CommTest.test_x", "status": "failed", "seconds": 1.204,
    "reason": "rank 1 failed: comm.cc:14", "file": "suites/comm.cc", "line": 12, "repetition": 2,
    "backend": "gloo", "repeat_command": "distrun test gloo.CommTest.test_x",
    "attempt": 1, "culprits": [1],
    "ranks": [
      {"rank": 0, "status": "passed", "assertions": 3, "failures": [], "skip_reason": "", "end": "",
       "stands_at": "", "output": "hello\n", "leaked_processes": [], "collectives": []},
      {"rank": 1, "status": "failed", "assertions": 3,
       "failures": [{"file": "suites/comm.cc", "line": 14,
                     "message": "Expected equality:\n  1\n  2"}],
       "skip_reason": "why", "end": "signal SIGSEGV (11)", "stands_at": "#0 here",
       "output": "hello\nworld", "leaked_processes": ["77 (sleep)"],
       "collectives": [{"op": "allreduce", "sizes": [[4, 2], []], "dtype": "Float", "count": 3}]}],
    "earlier_attempts": []})-"));
}

TEST(ResultJsonTest, RanksBelongToTheLastAttempt) {
  const nlohmann::json test = written(flaky_test("test_x"));
  EXPECT_EQ(test["status"], "flaky");
  EXPECT_EQ(test["attempt"], 2);
  EXPECT_EQ(test["ranks"][1]["status"], "passed");
  ASSERT_EQ(test["earlier_attempts"].size(), 1U);
  EXPECT_EQ(test["earlier_attempts"][0]["attempt"], 1);
  EXPECT_EQ(test["earlier_attempts"][0]["status"], "failed");
  EXPECT_EQ(test["earlier_attempts"][0]["seconds"], 1.204);
  EXPECT_EQ(test["earlier_attempts"][0]["culprits"], nlohmann::json({1}));
  EXPECT_EQ(test["earlier_attempts"][0]["ranks"][1]["status"], "failed");
}

TEST(ResultJsonTest, ATestThatWasNotStartedHasNoRanks) {
  const nlohmann::json test = written(skipped_test("test_x", "needs 2 GPUs"));
  EXPECT_EQ(test["status"], "skipped");
  EXPECT_EQ(test["reason"], "needs 2 GPUs");
  EXPECT_EQ(test["attempt"], 0);
  EXPECT_EQ(test["ranks"], nlohmann::json::array());
}

TEST(ResultJsonTest, ReplacesInvalidUtf8InOutput) {
  TestResult result = passed_test("test_x");
  result.attempts[0].ranks[0].output = std::string("a\xFF\xC3\0b", 5);
  EXPECT_EQ(written(result)["ranks"][0]["output"], std::string("a\uFFFD\uFFFD\0b", 9));
}

}  // namespace
}  // namespace distrun
