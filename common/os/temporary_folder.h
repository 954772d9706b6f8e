// Temporary folders, where Python's tempfile (and so torchrun) would put them: the first of TMPDIR,
// TEMP, TMP, /tmp, /var/tmp, /usr/tmp and the current folder in which one can be made.
//
//     auto folder = TemporaryFolder::make(environment);
//     if (!folder) return folder.error();      // "make a folder /tmp/distrun_XXXXXX: …"
//     … folder->path() …                       // /tmp/distrun_x3kQ2a
//
// Only this user has access.
#pragma once

#include <string>
#include <utility>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

// The destructor removes the folder and its contents. After a fork, parent and child (launcher and
// guard) both own it: one removes it even if the other is killed.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make(const Environment& environment);

  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }  // Absolute.

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Makes a folder that is not removed: "/tmp/NAME_x3kQ2a". The path is absolute, because a worker
// may change its current folder. If every place fails, returns the first error.
Result<std::string> make_temporary_folder(const Environment& environment, const std::string& name);

// Makes a folder that is not removed: PATH_x3kQ2a.
Result<std::string> make_unique_folder(std::string path);

}  // namespace distrun
