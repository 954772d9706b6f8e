// StoreFile is the file in which the workers of a run rendezvous, under `--store file:PATH`.
//
//     auto file = StoreFile::make("/scratch/meet");
//     if (!file) return file.error();              // nothing has been started
//     place.init_method = file->url();             // "file:///scratch/meet"
//
// Old content would lead workers to processes that no longer exist, so PATH must not exist or must
// be empty. make() claims it: if two runs name the same file, one fails.
//
// The last worker that leaves its group removes the file, unless it crashes. The launcher removes
// it too, unless it existed before the run or another process has replaced it. After SIGKILL it may
// remain; the next run refuses it.
#pragma once

#include <string>
#include <utility>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

class StoreFile {
 public:
  // Creates the file with mode 0600. Fails with kSystem if it is not empty or cannot be created,
  // and with kInvalidArgument if `path` does not fit in a URL; the message says what to do.
  static Result<StoreFile> make(const std::string& path);

  StoreFile(StoreFile&&) = default;
  StoreFile& operator=(StoreFile&&) = delete;
  ~StoreFile();

  const std::string& url() const { return url_; }

  // For a new attempt: empties the file, or creates it again if workers removed it. Requires that
  // all workers of the previous attempt have ended.
  Result<void> start_over();

 private:
  StoreFile(std::string path, std::string url) : path_(std::move(path)), url_(std::move(url)) {}

  std::string path_, url_;
  UniqueFd made_;  // If make() created it. Kept open, so that its inode is not reused.
};

}  // namespace distrun
