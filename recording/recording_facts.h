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
  bool is_of_tests = false;          // Of `distrun test`.
  std::vector<std::string> failed;   // Ids of tests that failed or did not run.
  // The command that runs it again, without flags that write reports: `rerun`, the ids of tests,
  // `rerun_tail` (PROGRAM with its arguments, or "--" and Python).
  std::vector<std::string> rerun, rerun_tail;
  bool is_exact = true;  // All words are UTF-8, so the file has them as they were.
  std::string folder;    // In which it ran.
  std::string host;
  std::chrono::system_clock::time_point began, ended;
  int status = 0;  // Exit status.
};

// Sets is_exact.
std::string recording_json(const RecordingFacts& facts);

// Fails with kInvalidArgument if the text is something else, or of a newer format. Accepts only
// commands of distrun as `rerun`, because they are executed.
Result<RecordingFacts> parse_recording_json(std::string_view text);

// The words of the command that runs the failed part again. Empty if nothing failed, or if it is
// not known which tests failed.
std::vector<std::string> rerun_words(const RecordingFacts& facts);

}  // namespace distrun
