// StatusLine is the one line of a terminal that says how far a run of tests has got.
//
//     12/340, 1 failed, about 8 s left: gloo.CommTest.test_a 3 s, gloo.CommTest.test_b
//
// Done and all; then the tests that are running, the oldest first, with their ages from one second
// on.  What is left is told as soon as it can be estimated: from earlier runs, or from the time
// that the tests of this run have taken so far.
//
// Pure: it has no clock.  A test's age, and the run's, counts from the tick behind its beginning.
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

  // Without an end of line, and of at most `columns` characters.
  std::string text(int columns) const;

 private:
  struct Running {
    std::string id;
    int repetition = 0;
    std::optional<Time> since;
  };

  void on(const TestsBegun& event);
  void on(const AttemptBegun& event);
  void on(const AttemptEnded& event);
  void on(const TestEnded& event);
  void on(const TestsNoticed&) {}
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
