// PrivateFolder is a folder of distrun's own for what is temporary (temporary_folder.h) that is
// gone, with what is in it, when the run is over.
//
//     auto folder = PrivateFolder::make(environment);
//     if (!folder) return folder.error();      // "make a folder /tmp/distrun_XXXXXX: …"
//     … folder->path() …
//
// Only this user may enter it.
#pragma once

#include <string>
#include <utility>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

class PrivateFolder {
 public:
  static Result<PrivateFolder> make(const Environment& environment);

  PrivateFolder(PrivateFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  PrivateFolder& operator=(PrivateFolder&&) = delete;
  ~PrivateFolder();

  const std::string& path() const { return path_; }  // Absolute.

 private:
  explicit PrivateFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace distrun
