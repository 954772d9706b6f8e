// Console reports a run of tests as text.
//
//     Console console({.terminal = true, .colours = true, .columns = 80}, write);
//     console.happened(event);   // each, as it happens
//     console.tick(now);         // once a second
//
// It prints a line for each test that ends:
//
//     PASS [   0.123s] gloo.CommTest.test_a
//     FAIL [   1.204s] gloo.CommTest.test_b: rank 1 failed: …
//     SKIP [   0.000s] gloo.CommTest.test_c: needs 2 GPUs
//     FLAKY 2/3 [   0.140s] gloo.CommTest.test_d
//
// (passed at the second of at most three attempts; each earlier attempt has a line too). Slow tests
// have a line while they run:
//
//     SLOW [>  10.000s] gloo.CommTest.test_e
//
// At the end come flaky and failed tests in full: the reason, an account of each rank
// (attempt_account.h) and the command that repeats the test. Then come several failures again, a
// line each, on request the slowest tests, and the last line:
//
//     2 passed (1 flaky), 1 failed, 1 skipped
//
// On a terminal the status line (status_line.h) is below, erased before other output and drawn
// again after each event or tick that changes it.
//
// Console has no clock; each call writes at most once.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "testsuites/harness/report/status_line.h"
#include "testsuites/harness/run/test_events.h"

namespace distrun {

class Console {
 public:
  struct Options {
    bool terminal = false;     // Show a status line.
    bool colours = false;      // Colour the first word of a line.
    int columns = 80;          // The terminal's width.
    bool show_output = false;  // Also for tests that did not fail.
    int durations = 0;         // Number of slowest tests to list.
    std::chrono::milliseconds slow_after = std::chrono::seconds(10);  // Then a test is SLOW.
  };

  Console(Options options, std::function<void(std::string_view)> write);

  void happened(const TestEvent& event);
  void tick(StatusLine::Time now);

  void resize(int columns);

 private:
  std::string repeat_label() const;
  std::string lines_of(const TestsBegun& event);
  std::string lines_of(const AttemptBegun&) const { return ""; }
  std::string lines_of(const AttemptEnded& event) const;
  std::string lines_of(const TestEnded& event);
  std::string lines_of(const TestsNoticed& event) const;
  std::string lines_of(const PlacesRead& event) const;
  std::string lines_of(const TestsEnded& event);

  std::string block_of(const TestResult& result) const;
  void note_duration(const TestResult& result);
  std::string slowest() const;
  std::string word_of(const TestResult& result) const;
  std::string coloured(std::string word, TestStatus status) const;

  // Writes `lines` above the status line.
  void show(std::string_view lines);

  Options options_;
  std::function<void(std::string_view)> write_;
  StatusLine status_;
  TestsBegun begun_;
  bool running_ = false;  // Between TestsBegun and TestsEnded.
  std::multimap<std::chrono::milliseconds, std::string, std::greater<>> slowest_;
  std::string drawn_;  // The status line now on the terminal.
};

}  // namespace distrun
