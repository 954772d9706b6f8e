// TraceFile writes the file of `--trace FILE` while the run goes on.
//
//     auto file = TraceFile::open("run.json");
//     if (!file) return file.error();                // "--trace run.json: permission denied"
//     file->begin(trace_head("{}"));                 // empties the file
//     file->add(event);                              // JSON objects (trace_event.h)
//     file->flush();
//     if (auto lost = file->finish()) … lost->message …
//
// A regular file is valid JSON at any time, even if distrun is killed: each write replaces the end
// of the list by more events and a new end.  FIFOs and /dev/fd/N get the end from finish() only.
//
// Only finish() waits for a reader, briefly. Events that cannot be written (slow reader, full disk)
// are kept, up to kKeptBytesMax, and retried at the next flush(); further events are lost. Events
// beyond kBytesMax, which viewers cannot load, are left out.
//
// Requires SIGPIPE and SIGXFSZ to be ignored, as in run_launch().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/unique_fd.h"
#include "common/units.h"
#include "distrun/result.h"

namespace distrun {

class TraceFile {
 public:
  static constexpr std::size_t kKeptBytesMax = 4 * kMiB;
  static constexpr std::uint64_t kBytesMax = 1024 * kMiB;

  // Fails with kInvalidArgument if the file cannot be opened or is a FIFO without a reader.
  static Result<TraceFile> open(const std::string& path, std::uint64_t bytes_max = kBytesMax);

  void begin(std::string_view head);

  // One event, or several that kTraceSeparator separates; they are written together.
  void add(std::string_view events);

  // Does not wait for a reader.
  void flush();

  // Waits up to `patience` for a slow reader. Reports what the file lacks, if anything.
  std::optional<Error> finish(std::chrono::milliseconds patience = std::chrono::seconds(2));

 private:
  TraceFile(std::string path, UniqueFd fd, bool is_regular, std::uint64_t bytes_max)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        is_regular_(is_regular),
        bytes_max_(bytes_max) {}
  // Return the error number; 0: everything was written.
  int write_at_end();
  int append();

  std::string path_;
  UniqueFd fd_;
  bool is_regular_;
  std::uint64_t bytes_max_;
  bool has_events_ = false;
  std::string kept_;           // Not yet written.
  std::uint64_t written_ = 0;  // Bytes, without the tail.
  std::size_t dropped_ = 0;    // Lost events.
  std::size_t left_out_ = 0;   // Events beyond the limit.
  bool is_stuck_ = false;      // The last write was incomplete.
  int error_number_ = 0;       // Why the last incomplete write was.
};

}  // namespace distrun
