// ClockOffset estimates how far the clock of another machine is ahead of this one's, from questions
// for its time and their answers.
//
//     ClockOffset offset;
//     offset.add({.told = …, .answered = …, .round_trip = …});
//     if (const auto now = offset.estimate(time)) time_here = time_there - now->offset;
//
// The answer may have been on its way for any part of the round trip. Clocks also drift apart: each
// second since the answer adds to the error. The best of the last answers counts. If a clock is
// set, the next answer contradicts the ones before, and replaces them.
//
// Pure.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "common/operations/operation.h"

namespace distrun {

class ClockOffset {
 public:
  struct Answer {
    OperationTime told;                      // By the other clock.
    OperationTime answered;                  // When it came, by this clock.
    std::chrono::nanoseconds round_trip{0};  // From the question to the answer.
  };

  struct Estimate {
    std::chrono::nanoseconds offset{0};  // Positive: the other clock is ahead.
    std::chrono::nanoseconds error{0};   // At most so far from the truth.
  };

  void add(const Answer& answer);

  // At a time by this clock. nullopt before the first answer.
  std::optional<Estimate> estimate(OperationTime now) const;

 private:
  std::deque<Answer> answers_;
};

}  // namespace distrun
