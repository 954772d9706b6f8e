// LineFile writes the file of a flag, line by line, while the run goes on.
//
//     auto file = LineFile::append("--events", "run.jsonl");
//     if (!file) return file.error();                // "--events run.jsonl: permission denied"
//     file->write(line);                             // appended, whole, in one system call
//     if (auto lost = file->finish()) … lost->message …
//
// It appends, so runs may share a regular file. FIFOs, terminals and /dev/fd/N work too. Only
// finish() waits for a reader, briefly. Lines that cannot be written (slow reader, full disk) are
// kept, up to kKeptBytesMax, and retried before the next; further lines are lost.
//
// Requires SIGPIPE and SIGXFSZ to be ignored, as in run_launch().
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

class LineFile {
 public:
  static constexpr std::size_t kKeptBytesMax = 1 * kMiB;

  // Fails with kSystem if the file cannot be opened or is a FIFO without a reader.
  static Result<LineFile> append(const std::string& flag, const std::string& path);

  // Keeps other processes from lock(), until this one and its forks end. Only of a regular file.
  // Fails with kInvalidArgument if another process has locked the file.
  Result<void> lock();

  // Removes all lines of a regular file.
  void clear();

  // `line` has no newline. Does not block.
  void write(std::string_view line);

  // Waits up to `patience` for a slow reader. Reports why and how many lines are lost, if any.
  std::optional<Error> finish(std::chrono::milliseconds patience = std::chrono::seconds(2));

 private:
  LineFile(std::string name, UniqueFd fd) : name_(std::move(name)), fd_(std::move(fd)) {}
  void flush();

  std::string name_;  // "--events run.jsonl"
  UniqueFd fd_;
  std::string kept_;         // Not yet written.
  std::size_t dropped_ = 0;  // Lost lines.
  int error_number_ = 0;     // Why the last write was incomplete.
};

}  // namespace distrun
