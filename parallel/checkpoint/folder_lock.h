// A lock on a folder, which only one save has at a time. Nothing of it is on the disk, and the
// kernel releases it when the process ends (flock(2)).
#pragma once

#include <string>
#include <utility>

#include "common/os/unique_fd.h"

namespace distrun::internal {

// Thread safety: one thread at a time for each object; two objects of a process exclude each other.
class FolderLock {
 public:
  FolderLock() = default;
  // Tries to lock an existing folder, and does not wait. On a file system that cannot lock folders,
  // as NFS cannot, every lock is held.
  explicit FolderLock(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept { *this = std::move(other); }
  FolderLock& operator=(FolderLock&& other) noexcept;
  ~FolderLock() { release(); }

  // False if another object has the lock, or if the folder has been removed or replaced meanwhile.
  bool is_held() const { return is_held_; }

  void release();

 private:
  UniqueFd fd_;
  bool is_held_ = false;
};

}  // namespace distrun::internal
