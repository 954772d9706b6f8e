#include "testsuites/harness/report/junit_xml.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pugixml.hpp>

#include "testsuites/harness/report/attempt_account.h"
#include "testsuites/harness/report/xml_text.h"

namespace distrun {

namespace {

using std::chrono::milliseconds;

class ToText : public pugi::xml_writer {
 public:
  void write(const void* data, std::size_t bytes) override {
    text_.append(static_cast<const char*>(data), bytes);
  }
  std::string text_;
};

void set(pugi::xml_node& node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(xml_text(value).c_str());
}
void set(pugi::xml_node& node, const char* name, std::size_t value) {
  set(node, name, std::to_string(value));
}
void set(pugi::xml_node& node, const char* name, milliseconds time) {
  set(node, name, fmt::format("{:.3f}", seconds(time)));
}

// Adds nothing for empty text.
void add_text(pugi::xml_node& node, const char* name, const std::string& text) {
  if (!text.empty()) node.append_child(name).text().set(xml_text(text).c_str());
}

void add_property(pugi::xml_node& properties, const char* name, const std::string& value) {
  pugi::xml_node property = properties.append_child("property");
  set(property, "name", std::string(name));
  set(property, "value", value);
}

// Whether the end of a rank (an error) or its finding (a failure) decided the attempt.
struct Verdict {
  bool is_error = false;
  std::string type;
};

Verdict verdict_of(const AttemptResult& attempt) {
  if (attempt.status == TestStatus::kInterrupted) return {true, text_of(attempt.status)};
  const auto culprit =
      std::find_if(attempt.ranks.begin(), attempt.ranks.end(), [&](const RankResult& rank) {
        return !attempt.culprits.empty() && rank.rank == attempt.culprits.front();
      });
  // Without a culprit, nothing was started. A culprit that skipped disagrees with the other ranks;
  // one that passed leaked a process.
  if (culprit == attempt.ranks.end()) return {true, text_of(attempt.status)};
  if (culprit->status == RankStatus::kSkipped) return {false, "diverged"};
  if (culprit->status == RankStatus::kPassed) return {false, text_of(attempt.status)};
  return {culprit->status != RankStatus::kFailed, text_of(culprit->status)};
}

std::string details_of(const TestResult& result, const AttemptResult& attempt) {
  return fmt::format("{}\n{}repeat: {}\n", attempt.reason, account_of(attempt, WithOutput::kNo),
                     result.repeat_command);
}

void set_reason(pugi::xml_node& node, const AttemptResult& attempt) {
  set(node, "message", attempt.reason);
  set(node, "type", verdict_of(attempt).type);
}

// <flakyFailure>, <rerunError>, …
void add_other_attempt(pugi::xml_node& test_case, const std::string& kind, const TestResult& result,
                       const AttemptResult& attempt) {
  const std::string name = kind + (verdict_of(attempt).is_error ? "Error" : "Failure");
  pugi::xml_node node = test_case.append_child(name.c_str());
  set_reason(node, attempt);
  add_text(node, "stackTrace", details_of(result, attempt));
  add_text(node, "system-out", output_of(attempt));
}

// A test that did not finish may have no attempt; it gets one with only a reason.
std::vector<AttemptResult> attempts_of(const TestResult& result) {
  if (!result.attempts.empty()) return result.attempts;
  return {{.status = result.status, .reason = result.reason}};
}

bool is_error(const TestResult& result) {
  if (!has_failed(result.status) || was_not_run(result)) return false;
  return result.attempts.empty() || verdict_of(result.attempts.front()).is_error;
}
bool is_skipped(const TestResult& result) {
  return result.status == TestStatus::kSkipped || was_not_run(result);
}
bool is_failure(const TestResult& result) {
  return has_failed(result.status) && !is_error(result) && !is_skipped(result);
}

void add_outcome(pugi::xml_node& test_case, const TestResult& result) {
  const auto attempts = attempts_of(result);
  const bool failed = has_failed(result.status);
  const AttemptResult& judged_by = failed ? attempts.front() : attempts.back();
  if (is_skipped(result)) {
    pugi::xml_node skipped = test_case.append_child("skipped");
    set(skipped, "message", result.reason);
  } else if (failed) {
    pugi::xml_node failure = test_case.append_child(is_error(result) ? "error" : "failure");
    set_reason(failure, judged_by);
    failure.text().set(xml_text(details_of(result, judged_by)).c_str());
  }
  for (const AttemptResult& attempt : attempts) {
    if (&attempt == &judged_by) continue;
    add_other_attempt(test_case, failed ? "rerun" : "flaky", result, attempt);
  }
  add_text(test_case, "system-out", output_of(judged_by));
}

void add_test_case(pugi::xml_node& suite, const TestsBegun& begun, const TestResult& result) {
  const TestIdParts parts = parts_of(result.test.id);
  pugi::xml_node test_case = suite.append_child("testcase");
  set(test_case, "classname", fmt::format("{}.{}", parts.suite, parts.test_class));
  set(test_case, "name", name_of(std::string(parts.name), result.repetition, begun));
  set(test_case, "time", result.time);
  set(test_case, "file", result.test.file);
  set(test_case, "line", std::to_string(result.test.line));
  pugi::xml_node properties = test_case.append_child("properties");
  const std::size_t ranks = result.attempts.empty() ? 0 : result.attempts.back().ranks.size();
  add_property(properties, "ranks",
               ranks > 0 ? std::to_string(ranks) : std::to_string(result.test.needs.ranks));
  add_property(properties, "backend", result.backend);
  add_property(properties, "seed", std::to_string(begun.seed));
  add_outcome(test_case, result);
}

using Results = std::vector<const TestResult*>;

std::size_t count_of(const Results& results, bool (*is)(const TestResult&)) {
  const auto count = std::count_if(results.begin(), results.end(),
                                   [&](const TestResult* result) { return is(*result); });
  return static_cast<std::size_t>(count);
}

void set_counts(pugi::xml_node& node, const Results& results) {
  set(node, "tests", results.size());
  set(node, "failures", count_of(results, is_failure));
  set(node, "errors", count_of(results, is_error));
}

std::string timestamp_of(WallTime at) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}+00:00",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(at)));
}

void add_suite(pugi::xml_node& root, const TestsBegun& begun, const std::string& name,
               const Results& results) {
  pugi::xml_node suite = root.append_child("testsuite");
  set(suite, "name", name);
  set_counts(suite, results);
  set(suite, "skipped", count_of(results, is_skipped));
  milliseconds time{0};
  for (const TestResult* result : results) time += result->time;
  set(suite, "time", time);
  set(suite, "timestamp", timestamp_of(begun.at));
  set(suite, "hostname", begun.host);
  pugi::xml_node properties = suite.append_child("properties");
  add_property(properties, "seed", std::to_string(begun.seed));
  add_property(properties, "jobs", std::to_string(begun.jobs));
  for (const TestResult* result : results) add_test_case(suite, begun, *result);
}

// Grouped by class, in order of first appearance.
std::vector<std::pair<std::string, Results>> by_class(const std::vector<TestResult>& results) {
  std::vector<std::pair<std::string, Results>> classes;
  for (const TestResult& result : results) {
    const TestIdParts parts = parts_of(result.test.id);
    const std::string name = fmt::format("{}.{}", parts.suite, parts.test_class);
    auto same = std::find_if(classes.begin(), classes.end(),
                             [&](const auto& one) { return one.first == name; });
    if (same == classes.end()) same = classes.insert(same, {name, {}});
    same->second.push_back(&result);
  }
  return classes;
}

}  // namespace

std::string junit_xml(const TestsBegun& begun, const TestsEnded& ended) {
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  set(declaration, "version", std::string("1.0"));
  set(declaration, "encoding", std::string("UTF-8"));
  pugi::xml_node root = document.append_child("testsuites");
  set(root, "name", std::string("distrun"));
  Results all;
  for (const TestResult& result : ended.results) all.push_back(&result);
  set_counts(root, all);
  set(root, "time", ended.summary.time);
  for (const auto& [name, results] : by_class(ended.results)) add_suite(root, begun, name, results);
  ToText text;
  document.save(text, "  ", pugi::format_default, pugi::encoding_utf8);
  return std::move(text.text_);
}

}  // namespace distrun
