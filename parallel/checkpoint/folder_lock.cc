#include "parallel/checkpoint/folder_lock.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace distrun::internal {

namespace {

bool is_at(int fd, const std::string& path) {
  struct stat its {
  }, there{};
  return ::fstat(fd, &its) == 0 && ::stat(path.c_str(), &there) == 0 &&
         its.st_dev == there.st_dev && its.st_ino == there.st_ino;
}

}  // namespace

FolderLock::FolderLock(const std::string& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_) {
    is_held_ = errno != ENOENT;
  } else if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    is_held_ = errno != EWOULDBLOCK;
  } else {
    is_held_ = is_at(fd_.get(), folder);
  }
}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  release();
  fd_ = std::move(other.fd_);
  is_held_ = std::exchange(other.is_held_, false);
  return *this;
}

void FolderLock::release() {
  // Closing is not enough: a forked process has the same open file.
  if (fd_) ::flock(fd_.get(), LOCK_UN);
  fd_.reset();
  is_held_ = false;
}

}  // namespace distrun::internal
