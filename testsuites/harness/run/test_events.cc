#include "testsuites/harness/run/test_events.h"

#include <fmt/format.h>

namespace distrun {

const char* text_of(RankStatus status) {
  switch (status) {
    case RankStatus::kPassed:
      return "passed";
    case RankStatus::kFailed:
      return "failed";
    case RankStatus::kSkipped:
      return "skipped";
    case RankStatus::kCrashed:
      return "crashed";
    case RankStatus::kTimedOut:
      return "timed_out";
    case RankStatus::kExited:
      return "exited";
  }
  return "";
}

const char* text_of(TestStatus status) {
  switch (status) {
    case TestStatus::kPassed:
      return "passed";
    case TestStatus::kFailed:
      return "failed";
    case TestStatus::kSkipped:
      return "skipped";
    case TestStatus::kFlaky:
      return "flaky";
    case TestStatus::kInterrupted:
      return "interrupted";
  }
  return "";
}

bool has_failed(TestStatus status) {
  return status == TestStatus::kFailed || status == TestStatus::kInterrupted;
}

bool was_not_run(const TestResult& result) {
  return result.status == TestStatus::kInterrupted && result.attempts.empty();
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string name_of(const std::string& id, int repetition, const TestsBegun& begun) {
  return begun.repetitions > 1 ? fmt::format("{} #{}", id, repetition + 1) : id;
}

}  // namespace distrun
