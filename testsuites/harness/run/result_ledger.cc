#include "testsuites/harness/run/result_ledger.h"

#include <utility>

namespace distrun {

TestResult ResultLedger::result_of(const PlannedTest& plan, int repetition,
                                   std::vector<AttemptResult> attempts, TestStatus status,
                                   std::string reason) const {
  if (status == TestStatus::kSkipped && options_.no_skips) {
    status = TestStatus::kFailed;
    reason = "skipped, which --no-skips forbids: " + reason;
  }
  TestResult result{.test = plan.test,
                    .status = status,
                    .reason = std::move(reason),
                    .attempts = std::move(attempts),
                    .repetition = repetition,
                    .backend = plan.backend,
                    .repeat_command = plan.repeat_command};
  for (const AttemptResult& attempt : result.attempts) result.time += attempt.time;
  return result;
}

void ResultLedger::add(std::size_t index, const PlannedTest& plan, TestResult result) {
  if (was_not_run(result)) {
    ++summary_.not_run;
  } else {
    count(result.status);
  }
  if (result.status == TestStatus::kPassed && !options_.keeps_all_results) {
    for (AttemptResult& attempt : result.attempts) attempt.ranks = {};
    const auto [before, first] = last_passed_.try_emplace(&plan, index);
    if (!first) results_.erase(std::exchange(before->second, index));
  }
  results_.emplace(index, std::move(result));
}

void ResultLedger::count(TestStatus status) {
  switch (status) {
    case TestStatus::kFlaky:
      ++summary_.flaky;
      [[fallthrough]];
    case TestStatus::kPassed:
      ++summary_.passed;
      break;
    case TestStatus::kSkipped:
      ++summary_.skipped;
      break;
    default:
      ++summary_.failed;
  }
}

TestsEnded ResultLedger::take(std::chrono::milliseconds time) {
  TestsEnded all{.summary = summary_, .results = {}};
  all.summary.time = time;
  all.results.reserve(results_.size());
  for (auto& [index, result] : results_) all.results.push_back(std::move(result));
  results_.clear();
  return all;
}

}  // namespace distrun
