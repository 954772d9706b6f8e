// Recording is a file that `--record FILE` has written.
//
//     auto recording = Recording::open("run.zip");
//     if (!recording) return recording.error();      // "run.zip: is not a recording of distrun"
//     recording->facts().status;
//     auto shown = recording->print([&](Printed to, std::string_view bytes) { … });
//
// The output may be larger than memory. Thread safety: const functions may run at the same time.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "distrun/result.h"
#include "recording/recording_facts.h"
#include "recording/recording_writer.h"

namespace distrun {

class Recording {
 public:
  // Fails with kInvalidArgument if the file is not a recording, or is one of a newer distrun.
  static Result<Recording> open(const std::string& path);

  const RecordingFacts& facts() const { return facts_; }

  // Passes on what distrun wrote to stdout and stderr, in the order of the run, in pieces. Stops at
  // the first error of `to`. Fails if the file is damaged.
  Result<void> print(
      const std::function<Result<void>(Printed to, std::string_view bytes)>& to) const;

 private:
  Recording(std::string path, RecordingFacts facts)
      : path_(std::move(path)), facts_(std::move(facts)) {}

  std::string path_;
  RecordingFacts facts_;
};

}  // namespace distrun
