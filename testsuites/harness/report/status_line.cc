#include "testsuites/harness/report/status_line.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text/text_cut.h"

namespace distrun {

namespace {

using std::chrono::milliseconds;

// "5 s", "2 min 05 s".
std::string duration_text(milliseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time).count();
  if (seconds < 60) return fmt::format("{} s", seconds);
  return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
}

}  // namespace

void StatusLine::happened(const TestEvent& event) {
  std::visit([this](const auto& what) { on(what); }, event);
}

void StatusLine::tick(Time now) {
  now_ = now;
  if (!began_) began_ = now;
  for (Running& test : running_) {
    if (!test.since) test.since = now;
  }
}

void StatusLine::on(const TestsBegun& event) { begun_ = event; }

void StatusLine::on(const AttemptBegun& event) {
  running_.push_back({.id = event.id, .repetition = event.repetition, .since = std::nullopt});
}

void StatusLine::on(const AttemptEnded& event) {
  const auto ended = std::find_if(running_.begin(), running_.end(), [&](const Running& test) {
    return test.id == event.id && test.repetition == event.repetition;
  });
  if (ended != running_.end()) running_.erase(ended);
}

void StatusLine::on(const TestEnded& event) {
  ++done_;
  if (has_failed(event.result.status)) ++failed_;
}

milliseconds StatusLine::age_of(const std::optional<Time>& since) const {
  return since ? std::chrono::floor<milliseconds>(now_ - *since) : milliseconds(0);
}

std::optional<milliseconds> StatusLine::left() const {
  constexpr int kEnoughTests = 5;
  const milliseconds so_far = age_of(began_);
  if (begun_.estimate && *begun_.estimate > so_far) return *begun_.estimate - so_far;
  if (done_ < kEnoughTests || done_ >= begun_.tests) return std::nullopt;
  return so_far * (begun_.tests - done_) / done_;
}

std::vector<std::pair<std::string, int>> StatusLine::slow_tests(milliseconds period) {
  std::vector<std::pair<std::string, int>> slow;
  for (Running& test : running_) {
    const auto periods = static_cast<int>(age_of(test.since) / period);
    if (periods <= test.periods) continue;
    test.periods = periods;
    slow.emplace_back(name_of(test.id, test.repetition, begun_), periods);
  }
  return slow;
}

std::string StatusLine::text(int columns) const {
  using std::chrono::seconds;
  std::string text = fmt::format("{}/{}", done_, begun_.tests);
  if (failed_ > 0) text += fmt::format(", {} failed", failed_);
  if (const auto time = left(); time && *time >= seconds(1)) {
    text += fmt::format(", about {} left", duration_text(*time));
  }
  std::string_view separator = ": ";
  for (const Running& test : running_) {
    text += separator;
    text += name_of(test.id, test.repetition, begun_);
    if (const auto age = age_of(test.since); age >= seconds(1)) text += ' ' + duration_text(age);
    separator = ", ";
  }
  return cut_to_columns(std::move(text), columns);
}

}  // namespace distrun
