// ResultFile is a file for the results of a run of tests: that it can be written is known before
// the run begins, and it is written whole at the end.
//
//     auto file = ResultFile::open("results.json");
//     if (!file) return file.error();            // "write results.json: permission denied"
//     … the run …
//     const auto written = file->write(text);
//     if (!written) …                            // "write results.json: no space left on device"
//
// A regular file is replaced (whole_file.h): an old one stays as it is until the new one is there,
// and for good where there comes none.  What is no regular file, and /dev/stdout, /dev/fd/N and
// their like whatever they are, is opened at once and written to; its reader has to take some of it
// within `kPatience`, again and again.
//
// Requires that SIGPIPE and SIGXFSZ are ignored when write() is called.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

// Whether results written to the path go to this process's stdout.
bool is_stdout(const std::string& path);

// Whether what is written to one path would replace what is written to the other, or be mixed with
// it.  A device takes both.
bool are_same_file(const std::string& path, const std::string& other);

class ResultFile {
 public:
  static constexpr std::chrono::seconds kPatience{30};

  // Fails with kInvalidArgument where it could not be written now.
  static Result<ResultFile> open(const std::string& path);

  Result<void> write(std::string_view text) const;

 private:
  ResultFile(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  UniqueFd fd_;  // Of what is no regular file.
};

}  // namespace distrun
