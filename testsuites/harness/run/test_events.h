// The events of a run of tests, for console, JSON and JUnit.
//
//     class Reporter { public: void happened(const TestEvent& event); … };
//
// TestsBegun comes first, TestsEnded last. In between, each selected test has an AttemptBegun and
// an AttemptEnded per attempt, then a TestEnded. A test skipped before its start has only
// TestEnded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/text/captured_text.h"
#include "distrun/test_info.h"
#include "evidence/report/where_ranks_are.h"
#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

enum class RankStatus {
  kPassed,
  kFailed,    // A failed assertion, an uncaught exception, or no assertion at all.
  kSkipped,   // GTEST_SKIP.
  kCrashed,   // Killed by a signal.
  kTimedOut,  // Did not end before the timeout or, after a peer's failure, the grace.
  kExited,    // It called exit() or _exit() during the test.
};

enum class TestStatus {
  kPassed,
  kFailed,
  kSkipped,
  kFlaky,        // Passed after a failed attempt.
  kInterrupted,  // The run was interrupted before the test ended.
};

struct RankResult {
  int rank = 0;
  int node = 0;
  std::string host;  // The node's name; empty if the attempt runs on one node.
  RankStatus status = RankStatus::kPassed;
  int assertions = 0;  // Passed and failed.
  std::vector<AssertionFailure> failures;
  int failures_lost = 0;  // Further ones; the last of `failures` says how many.
  std::string skip_reason;
  std::string end;                       // If unusual: "signal SIGSEGV (11)".
  std::string stands_at;                 // Stack traces of a rank that did not end, several lines.
  std::string told;                      // What AttemptResult::where lacks of `stands_at`.
  std::string output;                    // stdout and stderr, in order of arrival, shortened.
  LostText output_lost;                  // What `output` lacks.
  std::optional<WallTime> began, ended;  // Of its process.
  std::vector<Collective> collectives;
  OperationTimes times;
  std::vector<std::string> leaked;  // Processes that it leaked: "1234 (sleep)".
};

struct AttemptResult {
  int attempt = 1;
  TestStatus status = TestStatus::kPassed;  // Not kFlaky.
  // One line: "rank 2 failed: …", "rank 1 crashed: signal SIGSEGV (11)", "diverged: rank 0 skipped,
  // ranks 1, 2, 3 did not". If passed: empty, or a warning.
  std::string reason;
  WallTime began;
  std::chrono::milliseconds time{0};
  Whereabouts where;              // Of the ranks that did not end.
  std::vector<int> culprits;      // The ranks to blame; the first failed first.
  std::vector<RankResult> ranks;  // By rank; empty if none was started.
};

struct TestResult {
  TestInfo test;
  TestStatus status = TestStatus::kPassed;
  std::string reason;                   // The last attempt's, or why it was skipped.
  std::chrono::milliseconds time{0};    // Of all attempts.
  std::vector<AttemptResult> attempts;  // Empty if nothing was started.
  int repetition = 0;                   // With --repeat, from 0.
  std::string backend;
  std::string repeat_command;  // "distrun test gloo.CommTest.test_x"
};

struct TestsSummary {
  int passed = 0;  // Includes flaky tests.
  int failed = 0;  // Includes tests that an interrupt ended.
  int skipped = 0;
  int flaky = 0;
  std::chrono::milliseconds time{0};
  int not_run = 0;  // Not started, after an interrupt or --fail-fast.
};

struct TestsBegun {
  int tests = 0;  // Selected tests, times --repeat.
  int nodes = 1;
  int jobs = 0;          // Ranks at a time.
  int repetitions = 1;   // --repeat.
  int attempts_max = 1;  // 1 + --retries.
  std::vector<std::string> binaries;
  std::uint64_t seed = 0;
  std::string repeat_command;                         // Of all failed tests; may be empty.
  std::optional<std::chrono::milliseconds> estimate;  // If earlier runs suffice.
  WallTime at;
  std::string host;
};
struct AttemptBegun {
  std::string id;
  int repetition = 0;
  int attempt = 1;
  int ranks = 1;
};
struct AttemptEnded {
  std::string id;
  int repetition = 0;
  AttemptResult result;
  bool is_last = true;  // If false, the test is retried.
};
struct TestEnded {
  TestResult result;
};
struct TestsNoticed {  // One line about the run.
  std::string text;
};
struct PlacesRead {  // On request: where the ranks of a running test are, and in which collectives.
  std::string id;
  int repetition = 0;
  Whereabouts where;
};
struct TestsEnded {
  TestsSummary summary;
  // In the order of the list. See TestRunner::Options::keeps_all_results.
  std::vector<TestResult> results;
};
using TestEvent = std::variant<TestsBegun, AttemptBegun, AttemptEnded, TestEnded, TestsNoticed,
                               PlacesRead, TestsEnded>;

// "passed", "failed", "skipped", "crashed", "timed_out", "exited"; "flaky", "interrupted".
const char* text_of(RankStatus status);
const char* text_of(TestStatus status);

// Includes interrupted tests.
bool has_failed(TestStatus status);

// True if the run ended before the test started.
bool was_not_run(const TestResult& result);

double seconds(std::chrono::milliseconds time);

// The id; with --repeat, followed by the repetition: "gloo.CommTest.test_x #3".
std::string name_of(const std::string& id, int repetition, const TestsBegun& begun);

}  // namespace distrun
