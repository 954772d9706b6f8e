#include "launcher/run/store_file.h"

#include <cerrno>
#include <cstdint>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/text/file_url.h"

namespace distrun {

namespace {

// Marks a file as a run's. FileStore writes the same when its last user leaves: each text follows
// its length, in native byte order (torch/csrc/distributed/c10d/FileStore.cpp).
std::string record_of_no_users() {
  std::string record;
  for (const std::string_view text : {"refcount/", "0"}) {
    const auto length = static_cast<std::uint32_t>(text.size());
    record.append(reinterpret_cast<const char*>(&length), sizeof(length));
    record += text;
  }
  return record;
}

Error not_fresh(const std::string& what) {
  return {ErrorKind::kSystem, what +
                                  ": the path exists already; give a path that does not exist, or "
                                  "an empty file"};
}

Error cannot_make(const std::string& what, int error_number) {
  Error error = Error::from_errno(what, error_number);
  if (error_number == ENOENT || error_number == ENOTDIR || error_number == EACCES ||
      error_number == EROFS) {
    error.message += "; its folder must exist and be writable";
  }
  return error;
}

}  // namespace

Result<StoreFile> StoreFile::make(const std::string& path) {
  const std::string what = "make the store file " + path;
  auto url = file_url(path);
  if (!url) return url.error();
  StoreFile file(path, std::move(*url));
  file.made_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  UniqueFd found;
  struct stat status {};
  if (!file.made_) {
    if (errno != EEXIST) return cannot_make(what, errno);
    // stat() first: opening a device may have side effects.
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return not_fresh(what);
    found.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!found) return Error::from_errno(what);
  }

  const int fd = file.made_ ? file.made_.get() : found.get();
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (!locked && errno != EWOULDBLOCK) return Error::from_errno(what);
  if (!locked || ::fstat(fd, &status) != 0 || status.st_size != 0) {
    file.made_.reset();  // Keep the file of a run that was faster.
    return not_fresh(what);
  }
  const std::string claim = record_of_no_users();
  if (::write(fd, claim.data(), claim.size()) != static_cast<ssize_t>(claim.size())) {
    return Error::from_errno(what);
  }
  ::flock(fd, LOCK_UN);
  return file;
}

Result<void> StoreFile::start_over() {
  const std::string what = "empty the store file " + path_;
  const UniqueFd file(::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
  if (!file) {
    if (errno != ENOENT) return Error::from_errno(what);
    auto again = make(path_);
    if (!again) return again.error();
    made_ = std::move(again->made_);
    return {};
  }
  const std::string claim = record_of_no_users();
  if (::write(file.get(), claim.data(), claim.size()) != static_cast<ssize_t>(claim.size())) {
    return Error::from_errno(what);
  }
  return {};
}

StoreFile::~StoreFile() {
  struct stat made {
  }, there{};
  if (!made_ || ::fstat(made_.get(), &made) != 0) return;
  if (::stat(path_.c_str(), &there) != 0) return;
  if (made.st_dev == there.st_dev && made.st_ino == there.st_ino) ::unlink(path_.c_str());
}

}  // namespace distrun
