// The verdict on an attempt of a test, from the facts about its ranks.
//
//     judge(test, facts, /*interrupted=*/false)      // test: a TestInfo
//
// - A test passes if every rank passes.  A rank passes if its test finished with at least one
//   assertion, none failed, its process exited on its own with code 0, and it leaked no process.
//   Another exit code may come from a failure that could not be reported, or from a tool that the
//   rank runs under.
// - Results after the deadline do not count: the rank timed out.
// - A rank in TestNeeds::expected_ends passes if it ends in that way before its test finishes,
//   without a failed assertion.
// - A test is skipped if every rank skips.  If only some do, the test fails as "diverged".
// - A test that passes fails as "ranks disagree" if its ranks ran different collectives
//   (divergence.h), unless TestNeeds::collectives_may_differ or expected_ends is set.  With
//   collectives_may_differ, the test passes with a warning as its reason.  The same comparison is
//   part of the reason if ranks hang, if the run is interrupted, if a rank fails
//   after different collectives met, or if a rank that passed did not run a collective of a failed
//   rank.
// - The culprit is the first rank that failed.  A rank that was killed after another failed or
//   skipped is a consequence.  A rank that threw because a connection broke comes after
//   ranks that failed in another way, because the end of a lost rank may be seen later.
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/text/captured_text.h"
#include "distrun/process_end.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

struct RankFacts {
  std::optional<std::string> not_started;  // Why.
  std::optional<ProcessEnd> end;           // Empty if it could not be killed.
  std::string crashed_in;                  // "load (my_test.py:12)"; empty if unknown.
  bool host_lost = false;                  // The test host died or stopped answering.
  std::string node_lost;                   // Why its node is lost; mostly empty.
  bool was_ended = false;                  // By the runner.
  // It had not finished within its time, or the grace after a peer's failure.
  bool was_late = false;
  bool is_done = false;  // Its test finished.
  int assertions = 0;
  std::vector<AssertionFailure> failures;
  int failures_lost = 0;  // Further ones.
  std::optional<std::string> skip_reason;
  bool sent_garbage = false;
  std::string stands_at, told;  // As in RankResult.
  std::string output;
  LostText output_lost;
  std::optional<CollectiveRecord> collectives;  // Unset if it crashed or did not answer.
  std::vector<std::string> leaked;
  int order = 0;                               // Order of ends and failures: 1 for the first.
  std::optional<WallTime> began_at, ended_at;  // Of its process.

  // An exception, in contrast, may be the consequence of another rank's collective.
  bool failed_by_assertion() const { return !failures.empty() && failures.front().line > 0; }

  // The output then contains a backtrace.
  bool has_uncaught_exception() const {
    return !failures.empty() && failures.back().message.starts_with(kUncaughtException);
  }
};

// `where` names the places of ranks that did not end, in one line; may be empty.
AttemptResult judge(const TestInfo& test, std::vector<RankFacts> facts, bool interrupted,
                    const std::string& where = "");

// The effect of an ended rank on the others, from harmless to grave.
enum class RankOutcome { kPassed, kSkipped, kFailed };
RankOutcome outcome_of(const TestNeeds& needs, int rank, const RankFacts& facts);

}  // namespace distrun
