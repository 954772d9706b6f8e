// The error file, in which a worker reports its failure to the launcher; TORCHELASTIC_ERROR_FILE
// names it. Its format is torch's (torch/distributed/elastic/multiprocessing/errors/), so @record
// in Python, record() in C++, torchrun and distrun read each other's:
//
//     {"message": {"message": "ValueError: no such digit",
//                  "extraInfo": {"py_callstack": "Traceback …", "timestamp": "1735689600"},
//                  "errorCode": 1}}
//     {"message": "a plain text", "timestamp": 1735689600}
//
//     auto report = read_error_file(path);
//     if (!report) …                    // "error.json: it is not JSON", "… is longer than 1 MiB"
//     else if (*report) (*report)->message …
//
// A worker may write anything, or be killed while it writes: reading takes bounded time and memory,
// and never blocks.
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
  // Python's traceback or record()'s backtrace; may be empty. In the file, a backtrace starts with
  // the message, because torchrun prints nothing else.
  std::string callstack;
  std::optional<std::int64_t> timestamp;  // Seconds since 1970.
  std::optional<int> rank;                // Set by record(), not by Python.
  std::optional<int> error_code;          // Set by launchers: exit code, or minus the signal.
};

// Fails with kInvalidArgument if `json` has neither form. Bytes that are not text, and the lone
// surrogates that Python writes for them, become U+FFFD.
Result<ErrorReport> parse_error_report(std::string_view json);

// The first form, in ASCII, so that it is readable in any locale.
std::string to_json(const ErrorReport& report);

// Empty if the file does not exist or is empty. Fails if it is not a regular file, too long,
// unreadable, or not a report.
Result<std::optional<ErrorReport>> read_error_file(const std::string& path);

// Replaces an existing file. A report above the size limit is cut: its message and callstack end
// with "…".
Result<void> write_error_file(const std::string& path, const ErrorReport& report);

// Copies a worker's report, unknown fields included, for the process that started the launcher.
// Sets `errorCode` in the first form. Does nothing if `from` does not exist; fails like
// read_error_file and write_error_file.
Result<void> copy_error_file(const std::string& from, const std::string& to, int error_code);

}  // namespace distrun
