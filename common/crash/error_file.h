// The file in which a worker leaves why it failed: TORCHELASTIC_ERROR_FILE names it, the launcher
// reads it.  The form is torch's (torch/distributed/elastic/multiprocessing/errors/), so that
// @record in Python, record() in C++ (distrun/record.h), torchrun and distrun understand each
// other:
//
//     {"message": {"message": "ValueError: no such digit",
//                  "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1735689600"},
//                  "errorCode": 1}}
//     {"message": "a plain text", "timestamp": 1735689600}
//
//     auto report = read_error_file(path);
//     if (!report) …                    // "error.json: it is no JSON", "… is longer than 1 MiB"
//     else if (*report) (*report)->message …
//
// A worker writes what it likes and may be killed while it does: whatever is found there, reading
// takes a bounded time and a bounded amount of memory, and never waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/units.h"
#include "distrun/result.h"

namespace distrun {

inline constexpr std::size_t kErrorFileBytesMax = kMiB;

struct ErrorReport {
  std::string message;  // "<Type>: <text>"
  // Python's traceback, or record()'s backtrace; empty where there is none.  In the file a
  // backtrace begins with the message, for torchrun prints nothing else.
  std::string callstack;
  std::optional<std::int64_t> timestamp;  // Seconds since 1970.
  std::optional<int> rank;                // record()'s; Python writes none.
  std::optional<int> error_code;          // A launcher's: exit code, or minus the signal.
};

// Fails with kInvalidArgument where `json` is no report of either form.  Bytes that are no text,
// and halves of surrogate pairs, which Python writes for them, become U+FFFD.
Result<ErrorReport> parse_error_report(std::string_view json);

// In the first form; ASCII only, whatever locale it is read in.
std::string to_json(const ErrorReport& report);

// Nothing where there is no such file, or an empty one.  Fails where it is not a regular file, too
// long, not to be read, or no report.
Result<std::optional<ErrorReport>> read_error_file(const std::string& path);

// Replaces what is there.  Of a message or a callstack so long that nobody could read the file, the
// beginning is written, and "…".
Result<void> write_error_file(const std::string& path, const ErrorReport& report);

// Hands a worker's report on to who started the launcher: a copy, with all that is in it, to which
// `errorCode` is added where it has the first form.  Does nothing where there is no file at `from`;
// fails as read_error_file and write_error_file do.
Result<void> copy_error_file(const std::string& from, const std::string& to, int error_code);

}  // namespace distrun
