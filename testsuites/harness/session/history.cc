#include "testsuites/harness/session/history.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/os/whole_file.h"
#include "common/units.h"

namespace distrun {

namespace {

using std::chrono::microseconds;

constexpr std::size_t kFileBytesMax = 16 * kMiB;
// A day, so that sums do not overflow.
constexpr microseconds kTimeMax = std::chrono::hours(24);

void add_time(PastTest& past, microseconds latest) {
  const microseconds now = std::clamp(latest, microseconds(0), kTimeMax);
  past.time = past.time ? (*past.time * 7 + now * 3) / 10 : now;
}

bool has_passed(const TestResult& result) {
  return result.status == TestStatus::kPassed || result.status == TestStatus::kFlaky;
}

void add(History& history, const TestResult& result) {
  const bool was_started = !result.attempts.empty();
  PastTest& past = history.tests[result.test.id];
  const bool failed_in_this_run = past.failed && past.run == history.runs;  // With --repeat.
  past.failed = has_failed(result.status) || failed_in_this_run || (past.failed && !was_started);
  past.run = history.runs;
  if (has_passed(result) && was_started) add_time(past, result.attempts.back().time);
}

void forget_oldest(History& history) {
  if (history.tests.size() <= History::kTestsMax) return;
  std::vector<std::pair<std::int64_t, std::string>> by_run;
  for (const auto& [id, past] : history.tests) by_run.emplace_back(past.run, id);
  std::sort(by_run.begin(), by_run.end());
  by_run.resize(by_run.size() - History::kTestsMax);
  for (const auto& [run, id] : by_run) history.tests.erase(id);
}

std::optional<PastTest> past_test_of(const nlohmann::json& entry, std::int64_t runs) {
  const nlohmann::json none;
  const auto field = [&](const char* name) -> const nlohmann::json& {
    const auto found = entry.find(name);
    return found == entry.end() ? none : *found;
  };
  PastTest past;
  if (!field("run").is_number_integer()) return std::nullopt;
  past.run = field("run").get<std::int64_t>();
  if (past.run < 1 || past.run > runs) return std::nullopt;
  past.failed = field("failed") == true;
  if (field("time_us").is_number_integer()) {
    const microseconds time(field("time_us").get<std::int64_t>());
    if (time >= microseconds(0) && time <= kTimeMax) past.time = time;
  }
  return past;
}

}  // namespace

std::optional<microseconds> History::time_of(std::string_view id) const {
  const auto found = tests.find(id);
  return found == tests.end() ? std::nullopt : found->second.time;
}

std::set<std::string> History::failed() const {
  std::set<std::string> ids;
  for (const auto& [id, past] : tests) {
    if (past.failed) ids.insert(id);
  }
  return ids;
}

History updated(History history, const TestsEnded& ended) {
  if (ended.results.empty()) return history;
  ++history.runs;
  for (const TestResult& result : ended.results) add(history, result);
  forget_oldest(history);
  return history;
}

std::string to_json(const History& history) {
  nlohmann::json tests = nlohmann::json::object();
  for (const auto& [id, past] : history.tests) {
    nlohmann::json& entry = tests[id] = {{"run", past.run}, {"failed", past.failed}};
    if (past.time) entry["time_us"] = past.time->count();
  }
  return nlohmann::json{{"runs", history.runs}, {"tests", std::move(tests)}}.dump(
             1, ' ', false, nlohmann::json::error_handler_t::replace) +
         '\n';
}

Result<History> parse_history(std::string_view text) {
  const auto wrong = [](const char* why) { return Error{ErrorKind::kInvalidArgument, why}; };
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return wrong("not JSON (is it truncated?)");
  const auto runs = document.is_object() ? document.find("runs") : document.end();
  const auto tests = document.is_object() ? document.find("tests") : document.end();
  if (runs == document.end() || !runs->is_number_integer() || tests == document.end() ||
      !tests->is_object()) {
    return wrong("it has no \"runs\" or no \"tests\"");
  }
  History history;
  // Run numbers only grow, so values near the maximum are invalid too.
  history.runs = runs->get<std::int64_t>();
  if (history.runs < 0 || history.runs > INT64_MAX / 2)
    return wrong("its \"runs\" is out of bounds");
  for (const auto& [id, entry] : tests->items()) {
    if (auto past = past_test_of(entry, history.runs)) history.tests[id] = *past;
  }
  return history;
}

HistoryFile read_history(const std::string& path) {
  const auto ignored = [](const Error& error) {
    return HistoryFile{{},
                       fmt::format("the history of earlier runs is ignored: {}", error.message)};
  };
  const auto text = read_whole_file(path, kFileBytesMax);
  if (!text) return ignored(text.error());
  if (!*text) return {};
  auto history = parse_history(**text);
  if (!history) return ignored(history.error().with_context(path));
  return {std::move(*history), ""};
}

Result<void> add_to_history(const std::string& path, const TestsEnded& ended) {
  return replace_file(path, to_json(updated(read_history(path).history, ended)));
}

}  // namespace distrun
