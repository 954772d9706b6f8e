#include "testsuites/harness/protocol/test_list_json.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/parse_number.h"
#include "common/text/printable.h"
#include "testsuites/harness/protocol/process_end_json.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownListBytes = 200;
constexpr std::int64_t kTimeoutMsMax = 1'000'000'000'000;  // Also the limit of --timeout.

Json json_of(const std::optional<std::chrono::milliseconds>& timeout) {
  return timeout ? Json(timeout->count()) : Json(nullptr);
}

Json json_of(const TestInfo& test) {
  Json ends = Json::object();
  for (const auto& [rank, end] : test.needs.expected_ends) {
    ends[std::to_string(rank)] = end_json(end);
  }
  return {{"id", test.id},
          {"ranks", test.needs.ranks},
          {"ranks_max", test.needs.ranks_max},
          {"min_gpus", test.needs.min_gpus},
          {"backends", test.needs.backends},
          {"timeout_ms", json_of(test.needs.timeout)},
          {"exclusive", test.needs.exclusive},
          {"collectives_may_differ", test.needs.collectives_may_differ},
          {"expected_ends", std::move(ends)},
          {"file", test.file},
          {"line", test.line}};
}

// Missing fields keep their defaults; the first error is kept in `problem_`.
class TestReader {
 public:
  explicit TestReader(const Json& json) : json_(json) {}

  Result<TestInfo> read() {
    TestInfo test;
    if (!json_.is_object()) return wrong("not an object");
    read_text("id", test.id);
    require(is_an_id(test.id), "id", "not of the form suite.Class.test");
    TestNeeds& needs = test.needs;
    read_number("ranks", needs.ranks, 1, kRanksMax);
    read_number("ranks_max", needs.ranks_max, 0, kRanksMax);
    require(needs.ranks_max == 0 || needs.ranks_max >= needs.ranks, "ranks_max",
            fmt::format("{} is less than \"ranks\", {}", needs.ranks_max, needs.ranks));
    read_number("min_gpus", needs.min_gpus, 0);
    read_backends(needs.backends);
    read_timeout(needs.timeout);
    read_truth("exclusive", needs.exclusive);
    read_truth("collectives_may_differ", needs.collectives_may_differ);
    read_ends(needs);
    read_text("file", test.file);
    read_number("line", test.line, 0);
    if (!problem_.empty()) return wrong(problem_);
    return test;
  }

 private:
  static Error wrong(std::string message) { return {ErrorKind::kProtocol, std::move(message)}; }

  static bool is_an_id(std::string_view id) {
    const auto is_seen = [](unsigned char byte) { return byte > ' ' && byte != 0x7F; };
    return !parts_of(id).suite.empty() && !parts_of(id).test_class.empty() &&
           !parts_of(id).name.empty() && std::all_of(id.begin(), id.end(), is_seen);
  }

  void require(bool holds, std::string_view field, std::string_view otherwise) {
    if (!holds && problem_.empty()) problem_ = fmt::format("\"{}\": {}", field, otherwise);
  }

  // Null if missing.
  const Json* field(const char* name) const {
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  void read_text(const char* name, std::string& into) {
    const Json* value = field(name);
    if (value == nullptr) return;
    require(value->is_string(), name, "not a string");
    if (value->is_string()) into = value->get<std::string>();
  }

  void read_truth(const char* name, bool& into) {
    const Json* value = field(name);
    if (value == nullptr) return;
    require(value->is_boolean(), name, "not true or false");
    if (value->is_boolean()) into = value->get<bool>();
  }

  template <class Number>
  void read_number(const char* name, Number& into, Number min,
                   Number max = std::numeric_limits<Number>::max()) {
    const Json* value = field(name);
    if (value != nullptr) into = number(name, *value, min, max);
  }

  template <class Number>
  Number number(std::string_view name, const Json& value, Number min,
                Number max = std::numeric_limits<Number>::max()) {
    const auto is = whole_number<Number>(value);
    require(is.has_value(), name, "not a whole number, or too large");
    if (!is) return min;
    require(*is >= min, name, fmt::format("{} is less than {}", *is, min));
    require(*is <= max, name, fmt::format("{} is more than {}", *is, max));
    return *is;
  }

  void read_timeout(std::optional<std::chrono::milliseconds>& into) {
    const Json* value = field("timeout_ms");
    if (value == nullptr || value->is_null()) return;
    into = std::chrono::milliseconds(number("timeout_ms", *value, std::int64_t{1}, kTimeoutMsMax));
  }

  void read_backends(std::vector<std::string>& into) {
    const Json* value = field("backends");
    if (value == nullptr) return;
    const bool good = value->is_array() && !value->empty() &&
                      std::all_of(value->begin(), value->end(),
                                  [](const Json& backend) { return backend.is_string(); });
    require(good, "backends", "not a list of names");
    if (good) into = value->get<std::vector<std::string>>();
  }

  void read_ends(TestNeeds& needs) {
    const Json* value = field("expected_ends");
    if (value == nullptr) return;
    require(value->is_object(), "expected_ends", "not an object");
    if (!value->is_object()) return;
    for (const auto& [rank, end] : value->items()) read_end(rank, end, needs);
  }

  void read_end(const std::string& rank_text, const Json& end, TestNeeds& needs) {
    const auto rank = parse_number<int>(rank_text, 0, std::max(needs.ranks, needs.ranks_max) - 1);
    if (!rank)
      return require(false, "expected_ends",
                     "rank " + printable(rank.error().message, kShownListBytes));
    const bool is_signal = end.is_object() && end.contains("signal");
    const bool is_code = end.is_object() && end.contains("exit_code");
    if (is_signal == is_code) {
      return require(false, "expected_ends", "an end is either a \"signal\" or an \"exit_code\"");
    }
    if (is_signal) needs.expected_ends[*rank] = KilledBy{number("signal", end["signal"], 1)};
    if (is_code) needs.expected_ends[*rank] = ExitedWith{number("exit_code", end["exit_code"], 0)};
  }

  const Json& json_;
  std::string problem_;
};

// "test gloo.CommTest.test_sum", or "test 3" if it has no id.
std::string name_of(const Json& test, std::size_t index) {
  const auto id = test.is_object() ? test.find("id") : test.end();
  if (id == test.end() || !id->is_string()) return fmt::format("test {}", index + 1);
  return fmt::format("test {}", printable(id->get_ref<const std::string&>(), kShownListBytes));
}

}  // namespace

std::string test_list_json(const std::vector<TestInfo>& tests) {
  Json list = Json::array();
  for (const TestInfo& test : tests) list.push_back(json_of(test));
  return Json{{"tests", std::move(list)}}.dump(1, ' ', false, Json::error_handler_t::replace) +
         '\n';
}

Result<std::vector<TestInfo>> parse_test_list(std::string_view json) {
  const auto wrong = [](std::string what) { return Error{ErrorKind::kProtocol, std::move(what)}; };
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) return wrong("the list of tests is not JSON (is it truncated?)");
  if (!document.is_object() || !document.contains("tests") || !document["tests"].is_array()) {
    return wrong("the list of tests has no \"tests\"");
  }
  std::vector<TestInfo> tests;
  std::set<std::string> ids;
  for (const Json& entry : document["tests"]) {
    auto test = TestReader(entry).read();
    if (!test) return test.error().with_context(name_of(entry, tests.size()));
    if (!ids.insert(test->id).second) return wrong(name_of(entry, tests.size()) + ": listed twice");
    tests.push_back(std::move(*test));
  }
  return tests;
}

}  // namespace distrun
