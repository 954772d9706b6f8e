#include "recording/recording_facts.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text/printable.h"
#include "common/text/utc_time.h"
#include "common/text/valid_utf8.h"

namespace distrun {

namespace {

using Words = std::vector<std::string>;
using nlohmann::json;
using std::chrono::system_clock;

// Rises when older versions of distrun cannot read the files.
constexpr int kFormat = 1;

// Deeper values are not those of a recording; they would take memory.
constexpr int kDepthMax = 3;

// The last moment of the year 9999, in ms.
constexpr std::int64_t kLastMs = 253'402'300'799'999;

std::int64_t milliseconds_of(system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

bool are_utf8(const Words& words) {
  return std::all_of(words.begin(), words.end(),
                     [](const std::string& word) { return valid_utf8(word) == word; });
}

// Thrown for values of another type or range.
struct NotARecording {};

std::int64_t number(const json& all, const char* name, std::int64_t min, std::int64_t max) {
  const json& value = all.at(name);
  const auto found = value.is_number_integer() ? value.get<std::int64_t>() : min - 1;
  if (found < min || found > max) throw NotARecording();
  return found;
}

system_clock::time_point time(const json& all, const char* name) {
  return system_clock::time_point(std::chrono::milliseconds(number(all, name, 0, kLastMs)));
}

bool is_of_distrun(const RecordingFacts& facts) {
  const Words& words = facts.rerun;
  if (!facts.is_of_tests && !words.empty() && words.front() == "torchrun") return true;
  return words.size() >= 2 && words[0] == "distrun" &&
         words[1] == (facts.is_of_tests ? "test" : "launch");
}

RecordingFacts facts_of(const json& all) {
  RecordingFacts facts;
  facts.command = all.at("command").get<Words>();
  facts.is_of_tests = all.at("is_of_tests").get<bool>();
  facts.failed = all.at("failed").get<Words>();
  facts.rerun = all.at("rerun").get<Words>();
  facts.rerun_tail = all.at("rerun_tail").get<Words>();
  facts.is_exact = all.at("is_exact").get<bool>();
  facts.folder = all.at("folder").get<std::string>();
  facts.host = all.at("host").get<std::string>();
  facts.began = time(all, "began_ms");
  facts.ended = time(all, "ended_ms");
  facts.status = static_cast<int>(number(all, "status", 0, 255));
  if (!is_of_distrun(facts)) throw NotARecording();
  return facts;
}

}  // namespace

std::string recording_json(const RecordingFacts& facts) {
  const bool is_exact = facts.is_exact && are_utf8(facts.rerun) && are_utf8(facts.failed) &&
                        are_utf8(facts.rerun_tail);
  const nlohmann::ordered_json all{{"format", kFormat},
                                   {"distrun", facts.distrun},
                                   {"command", facts.command},
                                   {"folder", facts.folder},
                                   {"host", facts.host},
                                   {"began", rfc3339(facts.began)},
                                   {"began_ms", milliseconds_of(facts.began)},
                                   {"ended_ms", milliseconds_of(facts.ended)},
                                   {"status", facts.status},
                                   {"is_of_tests", facts.is_of_tests},
                                   {"failed", facts.failed},
                                   {"rerun", facts.rerun},
                                   {"rerun_tail", facts.rerun_tail},
                                   {"is_exact", is_exact}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

Result<RecordingFacts> parse_recording_json(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return Error{ErrorKind::kInvalidArgument, why};
  };
  const auto is_shallow = [](int depth, json::parse_event_t, json&) { return depth < kDepthMax; };
  try {
    const auto all = json::parse(text, is_shallow);
    const auto format = number(all, "format", 1, std::numeric_limits<int>::max());
    const auto version = all.at("distrun").get<std::string>();
    if (format > kFormat) {
      return refuse(fmt::format("is of distrun {}; this version cannot read it",
                                printable(version, /*bytes_max=*/40)));
    }
    RecordingFacts facts = facts_of(all);
    facts.distrun = version;
    return facts;
  } catch (const json::exception&) {
    return refuse("is not a recording of distrun");
  } catch (const NotARecording&) {
    return refuse("is not a recording of distrun");
  }
}

std::vector<std::string> rerun_words(const RecordingFacts& facts) {
  const bool has_failed = facts.is_of_tests ? !facts.failed.empty() : facts.status != 0;
  if (!has_failed) return {};
  Words words = facts.rerun;
  if (facts.is_of_tests) words.insert(words.end(), facts.failed.begin(), facts.failed.end());
  words.insert(words.end(), facts.rerun_tail.begin(), facts.rerun_tail.end());
  return words;
}

}  // namespace distrun
