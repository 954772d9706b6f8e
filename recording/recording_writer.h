// RecordingWriter collects what distrun prints and reports during a run, and writes it to the zip
// file of `--record FILE` at the end.
//
//     auto recording = RecordingWriter::open("run.zip");      // before anything starts
//     if (!recording) return recording.error();               // "--record: write run.zip: …"
//     recording->printed(Printed::kStdout, "loss 0.5\n");
//     recording->add("events.jsonl", line);
//     auto written = recording->finish(facts);                // the only way to make the file
//
// The members of the zip file:
//
//   recording.json   which run it is (recording_facts.h)
//   stdout, stderr   what distrun wrote there, byte by byte
//   output.jsonl     the order: {"ms": since the start, "to": "stdout", "bytes": N}
//   …                what add() and path_of() are for
//
// Until finish(), all of this is in files without names, on the disk of FILE if its folder takes
// files, else in TMPDIR. So a killed distrun leaves nothing behind. Errors of these files appear in
// finish().
//
// Requires that SIGXFSZ is ignored. Thread safety: none. After a fork, only one of the processes
// may use it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "distrun/result.h"
#include "recording/recording_facts.h"

namespace distrun {

enum class Printed { kStdout, kStderr };

class RecordingWriter {
 public:
  // Fails if FILE cannot be written.
  static Result<RecordingWriter> open(const std::string& path);
  RecordingWriter(RecordingWriter&&) noexcept;
  RecordingWriter& operator=(RecordingWriter&&) = delete;
  ~RecordingWriter();

  void printed(Printed to, std::string_view bytes);

  // Appends to the member `name`.
  void add(const std::string& name, std::string_view bytes);

  // For writers that open a file by its path: the member `name`, in this process.
  Result<std::string> path_of(const std::string& name);

  // The files of `folder` and of the folders in it become members "NAME/…", as they are at the
  // time of finish(). Leaves out links, and files that are not regular.
  void add_folder(const std::string& name, const std::string& folder);

  // Sets facts.began and facts.ended. Takes about a second for 300 MB of output. Call it once.
  Result<void> finish(RecordingFacts facts);

 private:
  struct Impl;
  explicit RecordingWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace distrun
