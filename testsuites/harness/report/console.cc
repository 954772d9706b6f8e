#include "testsuites/harness/report/console.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "common/text/printable.h"
#include "testsuites/harness/report/attempt_account.h"

namespace distrun {

namespace {

constexpr std::string_view kErase = "\r\x1b[K";

std::string_view colour_of(TestStatus status) {
  switch (status) {
    case TestStatus::kPassed:
      return "\x1b[32m";
    case TestStatus::kSkipped:
    case TestStatus::kFlaky:
      return "\x1b[33m";
    case TestStatus::kFailed:
    case TestStatus::kInterrupted:
      return "\x1b[31m";
  }
  return "";
}

// Reasons print as one line.
std::string one_line(const std::string& reason) {
  constexpr std::size_t kShownBytes = 400;
  return printable(reason, kShownBytes);
}

std::string behind_colon(const std::string& reason) {
  return reason.empty() ? "" : ": " + one_line(reason);
}

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string last_line(const TestsSummary& summary) {
  const std::string flaky = summary.flaky > 0 ? fmt::format(" ({} flaky)", summary.flaky) : "";
  const std::string not_run =
      summary.not_run > 0 ? fmt::format(", {} not run", summary.not_run) : "";
  return fmt::format("{} passed{}, {} failed, {} skipped{}\n", summary.passed, flaky,
                     summary.failed, summary.skipped, not_run);
}

}  // namespace

Console::Console(Options options, std::function<void(std::string_view)> write)
    : options_(options), write_(std::move(write)) {}

void Console::happened(const TestEvent& event) {
  status_.happened(event);
  const std::string lines = std::visit([this](const auto& what) { return lines_of(what); }, event);
  show(lines);
}

void Console::tick(StatusLine::Time now) {
  status_.tick(now);
  std::string lines;
  for (const auto& [name, periods] : status_.slow_tests(options_.slow_after)) {
    lines += fmt::format("{} [>{:7.3f}s] {}\n", coloured("SLOW", TestStatus::kFlaky),
                         seconds(options_.slow_after * periods), name);
  }
  show(lines);
}

void Console::resize(int columns) {
  options_.columns = columns;
  show("");
}

void Console::show(std::string_view lines) {
  // The last column stays free, because some terminals wrap after it.
  std::string status = options_.terminal && running_ ? status_.text(options_.columns - 1) : "";
  if (lines.empty() && status == drawn_) return;
  std::string text(drawn_.empty() ? "" : kErase);
  text.append(lines).append(status);
  drawn_ = std::move(status);
  write_(text);
}

std::string Console::repeat_label() const {
  return begun_.nodes > 1 ? fmt::format("repeat on {} nodes", begun_.nodes) : "repeat";
}

std::string Console::lines_of(const TestsBegun& event) {
  begun_ = event;
  running_ = true;
  return fmt::format("running {}{}, at most {} at a time, seed {}\n", counted(event.tests, "test"),
                     event.nodes > 1 ? fmt::format(" on {} nodes", event.nodes) : "",
                     counted(event.jobs, "rank"), event.seed);
}

std::string Console::lines_of(const AttemptEnded& event) const {
  if (event.is_last) return "";
  const AttemptResult& attempt = event.result;
  const std::string word = fmt::format("TRY {} FAIL", attempt.attempt);
  return fmt::format("{} [{:8.3f}s] {}{}\n", coloured(word, TestStatus::kFlaky),
                     seconds(attempt.time), name_of(event.id, event.repetition, begun_),
                     behind_colon(attempt.reason));
}

std::string Console::lines_of(const TestEnded& event) {
  const TestResult& result = event.result;
  if (was_not_run(result)) return "";  // The summary counts them.
  note_duration(result);
  std::string text =
      fmt::format("{} [{:8.3f}s] {}{}\n", word_of(result), seconds(result.time),
                  name_of(result.test.id, result.repetition, begun_),
                  result.status == TestStatus::kFlaky ? "" : behind_colon(result.reason));
  if (options_.show_output && !has_failed(result.status) && !result.attempts.empty()) {
    text += with_prefix("    ", merged_output_of(result.attempts.back()));
  }
  return text;
}

std::string Console::lines_of(const TestsNoticed& event) const {
  return fmt::format("distrun: {}\n", event.text);
}

std::string Console::lines_of(const PlacesRead& event) const {
  const auto& [line, stacks] = event.where;
  return fmt::format("distrun: where the ranks of {} are:{}{}\n{}",
                     name_of(event.id, event.repetition, begun_), line.empty() ? "" : " ", line,
                     stacks);
}

std::string Console::lines_of(const TestsEnded& event) {
  running_ = false;
  std::string text;
  std::string failed;
  int told = 0;
  for (const TestResult& result : event.results) {
    if (result.status == TestStatus::kFlaky) text += block_of(result);
  }
  for (const TestResult& result : event.results) {
    if (has_failed(result.status) && !was_not_run(result)) {
      text += block_of(result);
      failed += fmt::format("  {} {}{}\n", word_of(result),
                            name_of(result.test.id, result.repetition, begun_),
                            behind_colon(result.reason));
      ++told;
    }
  }
  if (told > 1) {
    text += "\nfailed:\n" + failed;
    if (!begun_.repeat_command.empty()) {
      text += fmt::format("  {}: {}\n", repeat_label(), begun_.repeat_command);
    }
  }
  text += slowest();
  const TestsSummary& summary = event.summary;
  const int tests = summary.passed + summary.failed + summary.skipped + summary.not_run;
  text += fmt::format("\n{} in {:.3f} s\n", counted(tests, "test"), seconds(summary.time));
  return text + last_line(summary);
}

void Console::note_duration(const TestResult& result) {
  if (options_.durations == 0) return;
  slowest_.emplace(result.time, name_of(result.test.id, result.repetition, begun_));
  if (slowest_.size() > static_cast<std::size_t>(options_.durations)) {
    slowest_.erase(std::prev(slowest_.end()));
  }
}

std::string Console::slowest() const {
  if (slowest_.empty()) return "";
  std::string text = "\nslowest:\n";
  for (const auto& [time, name] : slowest_) {
    text += fmt::format("  [{:8.3f}s] {}\n", seconds(time), name);
  }
  return text;
}

// For a flaky test, prints the last failed attempt in full.
std::string Console::block_of(const TestResult& result) const {
  const TestInfo& test = result.test;
  std::string text =
      fmt::format("\n{} {}", word_of(result), name_of(test.id, result.repetition, begun_));
  if (!test.file.empty()) text += fmt::format(" ({}:{})", test.file, test.line);
  text += '\n';
  if (result.attempts.empty()) text += fmt::format("  {}\n", one_line(result.reason));
  const bool passed_at_last = result.status == TestStatus::kFlaky && !result.attempts.empty();
  const std::size_t told = result.attempts.size() - (passed_at_last ? 1 : 0);
  for (std::size_t i = 0; i < told; ++i) {
    const AttemptResult& attempt = result.attempts[i];
    const std::string which =
        begun_.attempts_max > 1 ? fmt::format("attempt {}: ", attempt.attempt) : "";
    text += fmt::format("  {}{}\n", which, one_line(attempt.reason));
    if (i + 1 == told) text += with_prefix("  ", account_of(attempt, WithOutput::kYes));
  }
  return text + fmt::format("  {}: {}\n", repeat_label(), result.repeat_command);
}

std::string Console::word_of(const TestResult& result) const {
  switch (result.status) {
    case TestStatus::kPassed:
      return coloured("PASS", result.status);
    case TestStatus::kFailed:
      return coloured("FAIL", result.status);
    case TestStatus::kSkipped:
      return coloured("SKIP", result.status);
    case TestStatus::kInterrupted:
      return coloured("INTERRUPTED", result.status);
    case TestStatus::kFlaky:
      return coloured(fmt::format("FLAKY {}/{}", result.attempts.size(), begun_.attempts_max),
                      result.status);
  }
  return "";
}

std::string Console::coloured(std::string word, TestStatus status) const {
  if (!options_.colours) return word;
  return fmt::format("{}{}\x1b[0m", colour_of(status), word);
}

}  // namespace distrun
