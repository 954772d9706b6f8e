// Folders for what is temporary, where Python's tempfile would make them, and so torchrun: in
// the first of TMPDIR, TEMP, TMP, /tmp, /var/tmp, /usr/tmp and the current folder that takes one.
//
//     auto folder = TemporaryFolder::make(environment);
//     if (!folder) return folder.error();      // "make a folder /tmp/distrun_XXXXXX: …"
//     … folder->path() …                       // /tmp/distrun_x3kQ2a
//
// Only this user may enter them.
#pragma once

#include <string>
#include <utility>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

// A folder that goes with the object, and all that is in it.  What a process that is killed leaves,
// another removes that holds one for the same folder: a fork of the process, as the guard has.
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

// One that stays: "/tmp/NAME_x3kQ2a".  Absolute, because a worker may change its folder.  Fails if
// none of the places takes one, with the reason of the first.
Result<std::string> make_temporary_folder(const Environment& environment, const std::string& name);

// A new folder, whose name begins with `path`, which stays.
Result<std::string> make_unique_folder(std::string path);

}  // namespace distrun
