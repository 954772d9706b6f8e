#include "testsuites/harness/report/result_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;

// The document's only test.
nlohmann::json written(TestResult result) {
  return nlohmann::json::parse(result_json({}, {.results = {std::move(result)}}))["tests"][0];
}

TEST(ResultJsonTest, StartsWithTheSummaryAndTheRun) {
  const TestsBegun begun{.jobs = 4,
                         .binaries = {"a", "b"},
                         .seed = 18446744073709551615U,
                         .at = WallTime(std::chrono::seconds(1735689600)),
                         .host = "node7"};
  const TestsEnded ended{.summary = {3, 1, 2, 1, std::chrono::milliseconds(1250), 4}};
  EXPECT_EQ(result_json(begun, ended), R"({
 "summary": {"passed":3,"failed":1,"skipped":2,"flaky":1,"not_run":4,"seconds":1.25},
 "began": "2025-01-01T00:00:00.000Z",
 "host": "node7",
 "nodes": 1,
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
  result.attempts[0].where = {.line = "rank 1 in load", .stacks = "  rank 1\n    load\n"};
  EXPECT_EQ(written(result), nlohmann::json::parse(R"-({
    "id": "gloo.CommTest.test_x", "status": "failed", "seconds": 1.204,
    "reason": "rank 1 failed: comm.cc:14", "file": "suites/comm.cc", "line": 12, "repetition": 2,
    "backend": "gloo", "repeat_command": "distrun test gloo.CommTest.test_x",
    "attempt": 1, "began_s": 0.0, "culprits": [1],
    "where": "rank 1 in load", "stacks": "  rank 1\n    load\n",
    "ranks": [
      {"rank": 0, "status": "passed", "assertions": 3, "failures": [], "skip_reason": "", "end": "",
       "stands_at": "", "output": "hello\n", "began_s": null, "ended_s": null, "operations": [],
       "operations_left_out": 0, "leaked_processes": [], "collectives": []},
      {"rank": 1, "status": "failed", "assertions": 3,
       "failures": [{"file": "suites/comm.cc", "line": 14,
                     "message": "Expected equality:\n  1\n  2", "at_s": null}],
       "skip_reason": "why", "end": "signal SIGSEGV (11)", "stands_at": "#0 here",
       "output": "hello\nworld", "began_s": null, "ended_s": null, "operations": [],
       "operations_left_out": 0, "leaked_processes": ["77 (sleep)"],
       "collectives": [{"op": "allreduce", "sizes": [[4, 2], []], "dtype": "Float", "count": 3}]}],
    "earlier_attempts": []})-"));
}

TEST(ResultJsonTest, TimesOfRanksAreSecondsSinceTheirAttemptStarted) {
  const WallTime run(std::chrono::seconds(1735689600));
  const auto at = [&](int ms) { return run + std::chrono::milliseconds(ms); };
  TestResult result = flaky_test("test_x");
  result.attempts[0].began = at(10);
  result.attempts[1].began = at(500);
  RankResult& rank = result.attempts[1].ranks[1];
  rank.began = at(501);
  rank.ended = at(750);
  rank.failures = {{.file = "a.cc", .line = 1, .message = "", .at = at(600)}};
  rank.times = {{{"allreduce", "Float [4]", at(510), at(512)},
                 {"barrier", "", at(520), {}},
                 {"barrier", "", at(530), {}, /*end_is_unknown=*/true}},
                7};
  const auto test =
      nlohmann::json::parse(result_json({.at = run}, {.results = {result}}))["tests"][0];
  EXPECT_EQ(test["began_s"], 0.5);
  EXPECT_EQ(test["earlier_attempts"][0]["began_s"], 0.01);
  const auto& written = test["ranks"][1];
  EXPECT_EQ(written["began_s"], 0.001);
  EXPECT_EQ(written["ended_s"], 0.25);
  EXPECT_EQ(written["failures"][0]["at_s"], 0.1);
  EXPECT_EQ(written["operations_left_out"], 7);
  EXPECT_EQ(written["operations"], nlohmann::json::parse(R"([
      ["allreduce", "Float [4]", 0.01, 0.012, true], ["barrier", "", 0.02, null, false],
      ["barrier", "", 0.03, null, true]])"));
}

TEST(ResultJsonTest, RanksBelongToTheLastAttempt) {
  TestResult result = flaky_test("test_x");
  result.attempts[0].where = {.line = "rank 1 in load", .stacks = "  rank 1\n    load\n"};
  const nlohmann::json test = written(result);
  EXPECT_EQ(test["where"], "");
  EXPECT_EQ(test["earlier_attempts"][0]["where"], "rank 1 in load");
  EXPECT_EQ(test["status"], "flaky");
  EXPECT_EQ(test["attempt"], 2);
  EXPECT_EQ(test["ranks"][1]["status"], "passed");
  ASSERT_EQ(test["earlier_attempts"].size(), 1U);
  EXPECT_EQ(test["earlier_attempts"][0]["attempt"], 1);
  EXPECT_EQ(test["earlier_attempts"][0]["status"], "failed");
  EXPECT_EQ(test["earlier_attempts"][0]["seconds"], 1.204);
  EXPECT_EQ(test["earlier_attempts"][0]["culprits"], nlohmann::json({1}));
  EXPECT_EQ(test["earlier_attempts"][0]["ranks"][1]["status"], "failed");
  EXPECT_EQ(test["earlier_attempts"][0]["stacks"], "  rank 1\n    load\n");
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
