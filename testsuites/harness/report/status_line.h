// StatusLine shows the progress of a run of tests on a terminal.
//
//     12/340, 1 failed, about 8 s left: gloo.CommTest.test_a 3 s, gloo.CommTest.test_b
//
// Tests done and all tests; then the running tests, oldest first, with ages above one second. The
// time left is shown once it can be estimated from earlier runs or from this one.
//
// Pure: ages count from the first tick after the start.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testsuites/harness/run/test_events.h"

namespace distrun {

class StatusLine {
 public:
  using Time = std::chrono::steady_clock::time_point;

  void happened(const TestEvent& event);
  void tick(Time now);

  // Running tests that have reached another multiple of `period` since the last call: the name and
  // how many periods.
  std::vector<std::pair<std::string, int>> slow_tests(std::chrono::milliseconds period);

  // At most `columns` characters, without a line end.
  std::string text(int columns) const;

 private:
  struct Running {
    std::string id;
    int repetition = 0;
    std::optional<Time> since;
    int periods = 0;  // Reported by slow_tests().
  };

  void on(const TestsBegun& event);
  void on(const AttemptBegun& event);
  void on(const AttemptEnded& event);
  void on(const TestEnded& event);
  void on(const TestsNoticed&) {}
  void on(const PlacesRead&) {}
  void on(const TestsEnded&) {}

  std::chrono::milliseconds age_of(const std::optional<Time>& since) const;
  std::optional<std::chrono::milliseconds> left() const;

  TestsBegun begun_;
  int done_ = 0, failed_ = 0;
  std::vector<Running> running_;  // The oldest first.
  std::optional<Time> began_;
  Time now_;
};

}  // namespace distrun
