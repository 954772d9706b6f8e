// What became of tests: the one stream of events that a run of tests tells, and that console, JSON
// and JUnit are written from.
//
//     class Reporter { public: void happened(const TestEvent& event); … };
//
// TestsBegun comes first and TestsEnded last.  Between them each test that is selected has, for
// each attempt, an AttemptBegun and an AttemptEnded, and one TestEnded behind its last.  A test
// that is skipped before anything is started has only its TestEnded.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "distrun/test_info.h"
#include "testsuites/harness/protocol/test_facts.h"

namespace distrun {

enum class RankStatus {
  kPassed,
  kFailed,    // An assertion failed, an exception left the test, or it made no assertion.
  kSkipped,   // GTEST_SKIP.
  kCrashed,   // A signal ended it.
  kTimedOut,  // It did not end: because the test's time was over, or because another rank had
              // failed.
  kExited,    // It ended before its test did, by exit() or _exit().
};

enum class TestStatus {
  kPassed,
  kFailed,
  kSkipped,
  kFlaky,        // Passed, but not at the first attempt.
  kInterrupted,  // The run was ended before it was.
};

struct RankResult {
  int rank = 0;
  RankStatus status = RankStatus::kPassed;
  int assertions = 0;  // Made, whether they held or not.
  std::vector<AssertionFailure> failures;
  std::string skip_reason;
  std::string end;        // How the process ended where that is to be told: "signal SIGSEGV (11)".
  std::string stands_at;  // Of a rank that did not end: where it was, several lines; else empty.
  std::string output;     // What it wrote to stdout and stderr, in the order of arrival; shortened.
  std::vector<Collective> collectives;
  std::vector<std::string> leaked;  // Processes that outlived it and were killed: "1234 (sleep)".
};

struct AttemptResult {
  int attempt = 1;
  TestStatus status = TestStatus::kPassed;  // Not kFlaky.
  // One line; empty where it passed: "rank 2 failed: …", "rank 1 crashed: signal SIGSEGV (11)",
  // "diverged: rank 0 skipped, ranks 1, 2, 3 did not".
  std::string reason;
  std::chrono::milliseconds time{0};
  std::vector<int> culprits;      // Ranks to look at first, in order; the first failed first.
  std::vector<RankResult> ranks;  // By rank; empty where nothing was started.
};

struct TestResult {
  TestInfo test;
  TestStatus status = TestStatus::kPassed;
  std::string reason;                   // As the last attempt's, or why it was skipped.
  std::chrono::milliseconds time{0};    // Of all attempts.
  std::vector<AttemptResult> attempts;  // At least one, unless nothing was started.
  int repetition = 0;                   // With --repeat, from 0.
  std::string backend;
  std::string repeat_command;  // "distrun test gloo.CommTest.test_x"
};

struct TestsSummary {
  int passed = 0;  // Flaky ones too.
  int failed = 0;  // Interrupted ones too.
  int skipped = 0;
  int flaky = 0;
  std::chrono::milliseconds time{0};
};

struct TestsBegun {
  int tests = 0;         // That were selected, times --repeat.
  int jobs = 0;          // Ranks at a time.
  int repetitions = 1;   // --repeat.
  int attempts_max = 1;  // 1 + --retries.
  std::vector<std::string> binaries;
  std::uint64_t seed = 0;
  std::optional<std::chrono::milliseconds> estimate;  // Where enough is known from earlier runs.
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
  bool is_last = true;  // Else it is tried again.
};
struct TestEnded {
  TestResult result;
};
struct TestsNoticed {  // One line that is not about one test.
  std::string text;
};
struct TestsEnded {
  TestsSummary summary;
  // In the order of the list, whatever order they ran in; without some of those that have passed
  // where the runner was not to keep them.
  std::vector<TestResult> results;
};
using TestEvent =
    std::variant<TestsBegun, AttemptBegun, AttemptEnded, TestEnded, TestsNoticed, TestsEnded>;

// "passed", "failed", "skipped", "crashed", "timed_out", "exited"; "flaky", "interrupted".
const char* text_of(RankStatus status);
const char* text_of(TestStatus status);

// So does a test that was interrupted.
bool has_failed(TestStatus status);

// The run ended before the test started: nothing is known to be wrong with it.
bool was_not_run(const TestResult& result);

double seconds(std::chrono::milliseconds time);

// The id; with --repeat followed by which of them it is: "gloo.CommTest.test_x #3".
std::string name_of(const std::string& id, int repetition, const TestsBegun& begun);

}  // namespace distrun
