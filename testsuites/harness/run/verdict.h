// The verdict on one attempt of a test, from what became of each of its ranks.
//
//     judge(test, facts, /*interrupted=*/false)
//
// - A test passes where every rank passes, and a rank passes where its test came to its end without
//   a failed assertion, with at least one that was made, and left no process behind.
// - Its process has to end by itself then, with exit code 0: the failure may be one that could not
//   be told, or a tool's that it runs under.
// - What a rank does after its time is over changes nothing: it has not ended in time.
// - A rank that is expected to end before its test does (TestNeeds::expected_ends) passes where it
//   does so, with no failed assertion before.
// - A test is skipped where every rank skips.  Where only some do, the ranks disagree about what
//   they have in common: the test has failed, as "diverged".
// - The culprit is the first rank that failed.  A rank that had to be ended after another had
//   failed, or skipped, is a consequence.
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distrun/process_end.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

// What became of a rank.
struct RankFacts {
  std::optional<std::string> not_started;  // Why.
  std::optional<ProcessEnd> end;           // Nothing: it could not be ended.
  bool host_lost = false;                  // The test host went, or does not answer any more.
  bool was_ended = false;                  // By the runner.
  // It had not come to its end when its time, or the grace after another's failure, was over.
  bool was_late = false;
  bool is_done = false;  // Its test came to its end.
  int assertions = 0;
  std::vector<AssertionFailure> failures;
  std::optional<std::string> skip_reason;
  bool sent_garbage = false;
  std::string stands_at;
  std::string output;
  std::vector<Collective> collectives;
  std::vector<std::string> leaked;
  int order = 0;  // When it ended, or was seen to have failed: 1 for the first.
};

AttemptResult judge(const TestNeeds& needs, std::vector<RankFacts> facts, bool interrupted);

// What a rank that has ended means for the others, from harmless to grave.
enum class RankOutcome { kPassed, kSkipped, kFailed };
RankOutcome outcome_of(const TestNeeds& needs, int rank, const RankFacts& facts);

}  // namespace distrun
