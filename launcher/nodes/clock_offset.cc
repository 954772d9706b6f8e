#include "launcher/nodes/clock_offset.h"

#include <algorithm>
#include <cstddef>

namespace distrun {

namespace {

using std::chrono::nanoseconds;

constexpr std::size_t kAnswers = 16;
// Clocks of machines drift by up to 50 parts per million each.
constexpr int kDriftDivisor = 10'000;

nanoseconds offset_by(const ClockOffset::Answer& answer) {
  return answer.told - (answer.answered - answer.round_trip / 2);
}

}  // namespace

void ClockOffset::add(const Answer& answer) {
  const auto before = estimate(answer.answered);
  const nanoseconds error = answer.round_trip / 2;
  const bool was_set =
      before && std::chrono::abs(before->offset - offset_by(answer)) > before->error + error;
  if (was_set) answers_.clear();
  answers_.push_back(answer);
  if (answers_.size() > kAnswers) answers_.pop_front();
}

std::optional<ClockOffset::Estimate> ClockOffset::estimate(OperationTime now) const {
  std::optional<Estimate> best;
  for (const Answer& answer : answers_) {
    const nanoseconds age = std::max(now - answer.answered, nanoseconds(0));
    const nanoseconds error = answer.round_trip / 2 + age / kDriftDivisor;
    if (best && best->error <= error) continue;
    best = {.offset = offset_by(answer), .error = error};
  }
  return best;
}

}  // namespace distrun
