// ResultLedger counts and keeps the results of a run, for TestsEnded.
//
//     ResultLedger ledger({.no_skips = true});
//     const TestResult result = ledger.result_of(plan, repetition, attempts, status, reason);
//     ledger.add(index, plan, result);
//     on_event(ledger.take(time));
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "testsuites/harness/run/planned_test.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

class ResultLedger {
 public:
  struct Options {
    bool no_skips = false;          // A skip is a failure.
    bool keeps_all_results = true;  // See TestRunner::Options.
  };

  explicit ResultLedger(const Options& options) : options_(options) {}

  TestResult result_of(const PlannedTest& plan, int repetition, std::vector<AttemptResult> attempts,
                       TestStatus status, std::string reason) const;

  // `index` orders the results. `plan` identifies the test by address and must outlive the ledger.
  void add(std::size_t index, const PlannedTest& plan, TestResult result);

  // Moves the results out.
  TestsEnded take(std::chrono::milliseconds time);

 private:
  void count(TestStatus status);

  const Options options_;
  TestsSummary summary_;
  std::map<std::size_t, TestResult> results_;  // By index.
  std::map<const PlannedTest*, std::size_t>
      last_passed_;  // Indices; empty if all results are kept.
};

}  // namespace distrun
