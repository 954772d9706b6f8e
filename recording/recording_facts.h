// RecordingFacts says which run a recording is of. The member recording.json holds it.
//
//     const std::string text = recording_json(facts);
//     auto facts = parse_recording_json(text);
//
// Pure.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"

namespace distrun {

struct RecordingFacts {
  std::string distrun;               // The version that recorded it.
  std::vector<std::string> command;  // As it was given, from "distrun" on.
  // The command of the same run again, without flags that write files. Of tests without their
  // names; those of `failed` go before `after_names`.
  std::vector<std::string> rerun, after_names;
  bool is_of_tests = false;         // Of `distrun test`.
  std::vector<std::string> failed;  // Ids of tests that failed or did not run.
  std::string folder;               // In which it ran.
  std::string host;
  std::chrono::system_clock::time_point began, ended;
  int status = 0;  // Exit status.
};

std::string recording_json(const RecordingFacts& facts);

// Fails with kInvalidArgument if the text is something else, or of a newer format.
Result<RecordingFacts> parse_recording_json(std::string_view text);

// The words of the command that runs the failed part again. Empty if nothing failed.
std::vector<std::string> rerun_words(const RecordingFacts& facts);

}  // namespace distrun
