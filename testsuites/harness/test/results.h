// For tests of reporters: results of every kind.
#pragma once

#include <utility>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

inline TestInfo comm_test(std::string name, int ranks = 2) {
  return {.id = "gloo.CommTest." + std::move(name),
          .needs = {.ranks = ranks},
          .file = "suites/comm.cc",
          .line = 12};
}

inline RankResult passed_rank(int rank, std::string output = "") {
  return {.rank = rank, .assertions = 3, .output = std::move(output)};
}

inline TestResult passed_test(std::string name) {
  TestResult result{.test = comm_test(std::move(name)), .time = std::chrono::milliseconds(123)};
  result.attempts = {{.time = result.time, .ranks = {passed_rank(0), passed_rank(1)}}};
  result.backend = "gloo";
  result.repeat_command = "distrun test " + result.test.id;
  return result;
}

inline AttemptResult failed_attempt(int attempt = 1) {
  AttemptResult result{.attempt = attempt,
                       .status = TestStatus::kFailed,
                       .reason = "rank 1 failed: comm.cc:14",
                       .time = std::chrono::milliseconds(1204),
                       .culprits = {1}};
  result.ranks = {passed_rank(0, "hello\n"), passed_rank(1, "hello\nworld")};
  result.ranks[1].status = RankStatus::kFailed;
  result.ranks[1].failures = {{"suites/comm.cc", 14, "Expected equality:\n  1\n  2"}};
  return result;
}

inline TestResult failed_test(std::string name) {
  TestResult result = passed_test(std::move(name));
  result.status = TestStatus::kFailed;
  result.attempts = {failed_attempt()};
  result.time = result.attempts[0].time;
  result.reason = result.attempts[0].reason;
  return result;
}

inline TestResult flaky_test(std::string name) {
  TestResult result = passed_test(std::move(name));
  result.status = TestStatus::kFlaky;
  result.attempts[0].attempt = 2;
  result.attempts.insert(result.attempts.begin(), failed_attempt());
  result.time = std::chrono::milliseconds(1327);
  return result;
}

inline TestResult skipped_test(std::string name, std::string reason) {
  TestResult result = passed_test(std::move(name));
  result.status = TestStatus::kSkipped;
  result.reason = std::move(reason);
  result.time = {};
  result.attempts.clear();
  return result;
}

}  // namespace distrun
