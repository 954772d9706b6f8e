#include "testsuites/harness/report/test_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "testsuites/harness/test/results.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;

WallTime at(int time) { return WallTime(std::chrono::microseconds(time)); }

// A test of one rank, from 1000 to 9000.
TestResult traced_test() {
  TestResult result = passed_test("a");
  AttemptResult& attempt = result.attempts[0];
  attempt.began = at(500);
  attempt.ranks.resize(1);
  attempt.ranks[0].began = at(1000);
  attempt.ranks[0].ended = at(9000);
  return result;
}

std::vector<nlohmann::json> events_of(const TestResult& result, const std::string& phase) {
  std::vector<nlohmann::json> found;
  const auto trace = nlohmann::json::parse(test_trace({}, {.results = {result}}));
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

// "allreduce 2000+500 in row 1"
std::vector<std::string> bars_of(const TestResult& result) {
  std::vector<std::string> found;
  for (const auto& bar : events_of(result, "X")) {
    found.push_back(bar["name"].get<std::string>() + " " + bar["ts"].dump() + "+" +
                    bar["dur"].dump() + " in row " + bar["tid"].dump());
  }
  return found;
}

TEST(TestTraceTest, WritesATest) {
  TestResult result = traced_test();
  result.attempts[0].ranks[0].times.operations = {
      {"allreduce", "Float [4, 2]", at(2000), at(2500)}};
  EXPECT_EQ(
      test_trace({.jobs = 4, .binaries = {"a"}, .seed = 7, .host = "node7"}, {.results = {result}}),
      R"x({"displayTimeUnit":"ms","otherData":{"host":"node7","began":"1970-01-01T00:00:00.000Z","seed":7,"jobs":4,"binaries":["a"]},"traceEvents":[
{"ph":"M","pid":1000000,"tid":1000000,"name":"process_name","args":{"name":"gloo.CommTest.a"}},
{"ph":"M","pid":1000000,"tid":1000000,"name":"process_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":1000000,"tid":1,"name":"thread_name","args":{"name":"rank 0"}},
{"ph":"M","pid":1000000,"tid":1,"name":"thread_sort_index","args":{"sort_index":1}},
{"ph":"X","pid":1000000,"tid":1,"name":"passed","ts":1000.000,"dur":8000.000,"args":{"status":"passed","assertions":3}},
{"ph":"X","pid":1000000,"tid":1,"name":"allreduce","ts":2000.000,"dur":500.000,"args":{"op":"allreduce","tensors":"Float [4, 2]"}}
]}
)x");
}

TEST(TestTraceTest, OperationsThatOverlapOrDidNotEndAreThere) {
  TestResult result = traced_test();
  result.attempts[0].ranks[0].times.operations = {{"send", "", at(2000), at(4000)},
                                                  {"recv", "", at(3000), at(5000)},
                                                  {"allreduce", "", at(4500), std::nullopt}};
  EXPECT_THAT(
      bars_of(result),
      ElementsAre("passed 1000.0+8000.0 in row 1", "send 2000.0+2000.0 in row 1",
                  "recv 3000.0+2000.0 in row 2", "allreduce (unfinished) 4500.0+4500.0 in row 1"));
}

TEST(TestTraceTest, OperationsWhoseEndIsUnknownAreMarks) {
  TestResult result = traced_test();
  result.attempts[0].ranks[0].times.operations = {
      {"broadcast", "Float [4]", at(2000), std::nullopt, /*end_is_unknown=*/true},
      {"allreduce", "", at(3000), std::nullopt}};
  EXPECT_THAT(bars_of(result), ElementsAre("passed 1000.0+8000.0 in row 1",
                                           "allreduce (unfinished) 3000.0+6000.0 in row 1"));
  const auto marks = events_of(result, "i");
  ASSERT_EQ(marks.size(), 1U);
  EXPECT_EQ(marks[0]["name"], "broadcast (end unknown)");
  EXPECT_EQ(marks[0]["ts"], 2000);
  EXPECT_EQ(marks[0]["args"]["tensors"], "Float [4]");
}

TEST(TestTraceTest, FailuresAndKillsAreMarks) {
  TestResult result = failed_test("b");
  auto& ranks = result.attempts[0].ranks;
  ranks[0].status = RankStatus::kTimedOut;
  ranks[0].end = "killed by distrun";
  ranks[0].stands_at = "#0 wait";
  ranks[0].ended = at(9000);
  ranks[1].failures[0].at = at(700);
  const auto marks = events_of(result, "i");
  ASSERT_EQ(marks.size(), 2U);
  EXPECT_EQ(marks[0]["name"], "timed_out: killed by distrun");
  EXPECT_EQ(marks[0]["ts"], 9000);
  EXPECT_EQ(marks[0]["args"]["stands_at"], "#0 wait");
  EXPECT_EQ(marks[1]["name"], "failed: suites/comm.cc:14");
  EXPECT_EQ(marks[1]["ts"], 700);
  EXPECT_EQ(events_of(result, "X").back()["args"]["to_blame"], "rank 1 failed: comm.cc:14");
}

TEST(TestTraceTest, EachAttemptIsAProcess) {
  std::vector<std::string> names;
  for (const auto& event : events_of(flaky_test("c"), "M")) {
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("gloo.CommTest.c, attempt 1", "gloo.CommTest.c, attempt 2"));
  EXPECT_THAT(events_of(skipped_test("d", "no GPU"), "M"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace distrun
