// StoreFile is the file in which the workers of a run meet, under `--store file:PATH`.
//
//     auto file = StoreFile::make("/scratch/meet");
//     if (!file) return file.error();              // nothing has been started
//     place.init_method = file->url();             // "file:///scratch/meet"
//
// A FileStore knows only what is in its file, so each run needs a fresh one: what another has left
// there would lead the workers to processes that are gone.  PATH is therefore not there, or an
// empty file.  It is made and claimed before a worker starts: of two runs that name the same
// file, one is told so.
//
// The last worker that leaves its group removes the file, but none does where a worker
// crashes.  So the launcher removes it after the run, if it has made it; an empty file that was
// there is left to whom it belongs, and so is one that somebody has made there since.  What
// a launcher leaves that is killed with SIGKILL, the next run refuses.
#pragma once

#include <string>
#include <utility>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

class StoreFile {
 public:
  // Mode 0600.  Fails with kSystem where the file is there and not empty, or cannot be made, and
  // with kInvalidArgument where no URL can carry `path`; the message says what to do.
  static Result<StoreFile> make(const std::string& path);

  StoreFile(StoreFile&&) = default;
  StoreFile& operator=(StoreFile&&) = delete;
  ~StoreFile();

  const std::string& url() const { return url_; }

  // A new attempt begins: the file is as fresh as make() left it, and made again where workers have
  // removed it.  Requires that the workers of the attempt before have ended.
  Result<void> start_over();

 private:
  StoreFile(std::string path, std::string url) : path_(std::move(path)), url_(std::move(url)) {}

  std::string path_, url_;
  UniqueFd
      made_;  // The file, if it was made here.  Held open, so that no other can be taken for it.
};

}  // namespace distrun
