// ResultFile is the output file of a run's results: open() checks before the run that it can be
// written; write() writes all of it at the end.
//
//     auto file = ResultFile::open("results.json");
//     if (!file) return file.error();            // "write results.json: permission denied"
//     … the run …
//     const auto written = file->write(text);
//     if (!written) …                            // "write results.json: no space left on device"
//
// A regular file is replaced atomically (whole_file.h). Other files, and paths like /dev/stdout or
// /dev/fd/N, are opened at once and written to; the reader must take some bytes within every
// `kPatience`.
//
// Requires that SIGPIPE and SIGXFSZ are ignored during write().
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

// Whether writing to the path writes to this process's stdout.
bool is_stdout(const std::string& path);

// Whether output to one path would replace or mix with output to the other. Never true for
// character devices.
bool are_same_file(const std::string& path, const std::string& other);

class ResultFile {
 public:
  static constexpr std::chrono::seconds kPatience{30};

  // Fails with kInvalidArgument if the file cannot be written.
  static Result<ResultFile> open(const std::string& path);

  Result<void> write(std::string_view text) const;

 private:
  ResultFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;  // Invalid for regular files.
};

}  // namespace distrun
