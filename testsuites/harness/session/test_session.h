// A run of tests from its beginning to its end, in the process behind the guard: hosts are loaded,
// tests chosen, run, and told of.
//
//     const auto outcome = run_test_session(options, context);
//     if (!outcome) … nothing was run …
//     return outcome->status;
//
// Threads: requires one, and no children.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "distrun/result.h"
#include "launcher/process/guard.h"
#include "testsuites/harness/report/console.h"
#include "testsuites/harness/run/test_runner.h"
#include "testsuites/harness/select/selection.h"
#include "testsuites/harness/session/test_plan.h"

namespace distrun {

struct TestSessionOptions {
  TestRunner::Options runner;
  TestSelection selection;
  PlanOptions plan;
  Console::Options console;
  bool only_failed = false;  // Of the last run.
  bool list = false;         // Nothing is run.
  bool list_as_json = false;
  std::string json, junit;  // Files to write; empty for none.
  std::string history;      // The file; empty for none.
  std::vector<int> end_signals;
  // Then it is told that hosts have yet to say what tests they have.
  std::chrono::milliseconds hosts_patience = std::chrono::seconds(10);
};

struct TestSessionContext {
  GuardLifeline lifeline;
  std::string host;
  std::function<void(std::string_view)> out;  // Console and lists.
  std::function<void(std::string_view)> err;  // What went wrong beside the tests.
  std::function<int()> columns;               // Of the terminal, if there is one, as it is now.
};

// 0 all passed, 1 one failed, 4 no test ran, 128 + a signal that ended it.
struct TestSessionEnd {
  int status = 0;
};

inline constexpr int kExitTestFailed = 1, kExitNoTestRan = 4;

// Fails with kInvalidArgument where the selection means no test, or a file of results could not be
// written, which is seen before anything is started; else where hosts do not start, or the files of
// results could not be written in the end.
Result<TestSessionEnd> run_test_session(const TestSessionOptions& options,
                                        const TestSessionContext& context);

}  // namespace distrun
