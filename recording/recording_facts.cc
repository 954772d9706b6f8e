#include "recording/recording_facts.h"

#include <nlohmann/json.hpp>

#include "common/text/utc_time.h"

namespace distrun {

namespace {

// Rises when older versions of distrun cannot read the files.
constexpr int kFormat = 1;

std::int64_t milliseconds_of(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::chrono::system_clock::time_point time_of(std::int64_t milliseconds) {
  return std::chrono::system_clock::time_point(std::chrono::milliseconds(milliseconds));
}

}  // namespace

std::string recording_json(const RecordingFacts& facts) {
  const nlohmann::ordered_json all{{"format", kFormat},
                                   {"distrun", facts.distrun},
                                   {"command", facts.command},
                                   {"rerun", facts.rerun},
                                   {"after_names", facts.after_names},
                                   {"is_of_tests", facts.is_of_tests},
                                   {"failed", facts.failed},
                                   {"folder", facts.folder},
                                   {"host", facts.host},
                                   {"began", rfc3339(facts.began)},
                                   {"began_ms", milliseconds_of(facts.began)},
                                   {"ended_ms", milliseconds_of(facts.ended)},
                                   {"status", facts.status}};
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

Result<RecordingFacts> parse_recording_json(std::string_view text) {
  const auto refuse = [](const std::string& why) {
    return Error{ErrorKind::kInvalidArgument, why};
  };
  try {
    const auto all = nlohmann::json::parse(text);
    const int format = all.at("format").get<int>();
    RecordingFacts facts;
    facts.distrun = all.at("distrun").get<std::string>();
    if (format > kFormat) {
      return refuse("is of distrun " + facts.distrun + "; this version cannot read it");
    }
    using Words = std::vector<std::string>;
    facts.command = all.at("command").get<Words>();
    facts.rerun = all.at("rerun").get<Words>();
    facts.after_names = all.at("after_names").get<Words>();
    facts.is_of_tests = all.at("is_of_tests").get<bool>();
    facts.failed = all.at("failed").get<Words>();
    facts.folder = all.at("folder").get<std::string>();
    facts.host = all.at("host").get<std::string>();
    facts.began = time_of(all.at("began_ms").get<std::int64_t>());
    facts.ended = time_of(all.at("ended_ms").get<std::int64_t>());
    facts.status = all.at("status").get<int>();
    return facts;
  } catch (const nlohmann::json::exception&) {
    return refuse("is not a recording of distrun");
  }
}

std::vector<std::string> rerun_words(const RecordingFacts& facts) {
  const bool has_failed = facts.is_of_tests ? !facts.failed.empty() : facts.status != 0;
  if (!has_failed) return {};
  std::vector<std::string> words = facts.rerun;
  if (facts.is_of_tests) words.insert(words.end(), facts.failed.begin(), facts.failed.end());
  words.insert(words.end(), facts.after_names.begin(), facts.after_names.end());
  return words;
}

}  // namespace distrun
