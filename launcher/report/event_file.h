// EventFile is where `--events FILE` puts its lines.
//
//     auto file = EventFile::open("run.jsonl");
//     if (!file) return file.error();                // "--events run.jsonl: permission denied"
//     file->write(line);                             // appended, whole, in one system call
//     if (auto lost = file->finish()) … lost->message …
//
// A regular file is appended to, so several runs may share one.  A FIFO, a terminal and /dev/fd/N
// do as well: nothing here waits for a reader, but finish(), for a moment.  Lines that cannot be
// written (a slow reader, a full disk) are kept, up to kKeptBytesMax, and tried again before the
// next; beyond that they are lost.
//
// Requires that SIGPIPE and SIGXFSZ are ignored, as run_launch() has them.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "common/os/unique_fd.h"
#include "common/units.h"
#include "distrun/result.h"

namespace distrun {

class EventFile {
 public:
  static constexpr std::size_t kKeptBytesMax = 1 * kMiB;

  // Fails with kSystem where the file cannot be opened, and where it is a FIFO that nobody reads.
  static Result<EventFile> open(const std::string& path);

  // `line` without its end.  Does not block.
  void write(std::string_view line);

  // Gives a reader that is behind `patience` to take the rest.  Says what went wrong and how many
  // lines are missing, where any are.
  std::optional<Error> finish(std::chrono::milliseconds patience = std::chrono::seconds(2));

 private:
  EventFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  void flush();

  std::string path_;
  UniqueFd fd_;
  std::string kept_;         // Accepted, not yet written.
  std::size_t dropped_ = 0;  // Lines that were not accepted.
  int error_number_ = 0;     // Why the last write did not take everything.
};

}  // namespace distrun
