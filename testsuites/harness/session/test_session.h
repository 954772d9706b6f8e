// One run of tests, from loading hosts to reporting results, in the guard's child process.
//
//     const auto outcome = run_test_session(options, context);
//     if (!outcome) … no test ran …
//     return outcome->status;
//
// Threads: requires a process with one thread and no children.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "launcher/process/guard.h"
#include "testsuites/harness/report/console.h"
#include "testsuites/harness/run/test_runner.h"
#include "testsuites/harness/select/selection.h"
#include "testsuites/harness/session/test_nodes.h"
#include "testsuites/harness/session/test_plan.h"

namespace distrun {

struct TestSessionOptions {
  TestRunner::Options runner;
  TestSelection selection;
  PlanOptions plan;
  Console::Options console;
  bool only_failed = false;  // Only tests that failed in earlier runs.
  bool list = false;         // List the tests, run none.
  bool list_as_json = false;
  std::string json, junit, html, trace;  // Files to write; empty for none.
  std::string history;                   // The file; empty for none.
  std::optional<TestNodes> nodes;        // Of a run on several nodes.
  std::vector<int> end_signals;
  // After this time, it prints that hosts have not listed their tests.
  std::chrono::milliseconds hosts_patience = std::chrono::seconds(10);
};

struct TestSessionContext {
  GuardLifeline lifeline;
  std::string host;
  std::function<void(std::string_view)> out;  // For console and lists.
  std::function<void(std::string_view)> err;  // For problems other than failed tests.
  std::function<int()> columns;               // The terminal's current width.
  // For a recording: each report at the end, and the file it went to, which may be empty. `name` is
  // "results.json", "junit.xml", "report.html" or "trace.json". May be empty.
  std::function<void(const char* name, const std::string& path, std::string_view text)> on_report;
  // For a recording: the ids of tests that failed or did not run, sorted. Called at the end, also
  // after an error or a second signal. May be empty.
  std::function<void(const std::vector<std::string>& failed)> on_end;
};

// 0: all passed, 1: a test failed, 4: no test ran, 128 + N: signal N ended the run.
struct TestSessionEnd {
  int status = 0;
};

inline constexpr int kExitTestFailed = 1, kExitNoTestRan = 4;

// Fails with kInvalidArgument if the selection matches no test or, before anything starts, if a
// result file cannot be written. Also fails if hosts do not start, or if writing results fails.
Result<TestSessionEnd> run_test_session(const TestSessionOptions& options,
                                        const TestSessionContext& context);

}  // namespace distrun
