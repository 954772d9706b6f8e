#include "launcher/report/line_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/wait_writable.h"

namespace distrun {

namespace {

// The limit for unprivileged processes (fs.pipe-max-size); fits the start of 512 workers.
constexpr int kPipeBytes = 1 << 20;

}  // namespace

Result<LineFile> LineFile::append(const std::string& flag, const std::string& path) {
  std::string name = flag + " " + path;
  UniqueFd fd(::open(path.c_str(),
                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
  if (!fd && errno == ENXIO) {
    return Error{ErrorKind::kInvalidArgument, name + ": has no reader; start the reader first"};
  }
  if (!fd) {
    return Error{ErrorKind::kInvalidArgument, Error::from_errno(name).message};
  }
  ::fcntl(fd.get(), F_SETPIPE_SZ, kPipeBytes);  // May fail: not a pipe, or a lower limit.
  return LineFile(std::move(name), std::move(fd));
}

Result<void> LineFile::lock() {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return {};
  return Error{ErrorKind::kInvalidArgument,
               name_ + ": another run writes to it; give another file"};
}

void LineFile::clear() {
  kept_.clear();
  dropped_ = 0;
  // Fails for a file that is not regular: its reader gets all lines.
  static_cast<void>(::ftruncate(fd_.get(), 0));
}

void LineFile::write(std::string_view line) {
  if (kept_.size() + line.size() + 1 > kKeptBytesMax) {
    ++dropped_;
  } else {
    kept_.append(line).append(1, '\n');
  }
  flush();
}

void LineFile::flush() {
  std::size_t written = 0;
  while (written < kept_.size()) {
    const auto size = ::write(fd_.get(), kept_.data() + written, kept_.size() - written);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      error_number_ = size < 0 ? errno : EIO;
      break;
    }
    written += static_cast<std::size_t>(size);
  }
  kept_.erase(0, written);
}

std::optional<Error> LineFile::finish(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  flush();
  while (!kept_.empty() && error_number_ == EAGAIN) {
    if (!wait_writable(fd_.get(), deadline)) break;
    flush();
  }
  const auto missing =
      dropped_ + static_cast<std::size_t>(std::count(kept_.begin(), kept_.end(), '\n'));
  if (missing == 0) return std::nullopt;
  const std::string what =
      fmt::format("{}: {} line{} missing", name_, missing, missing == 1 ? " is" : "s are");
  if (error_number_ == EAGAIN) {
    return Error{ErrorKind::kSystem, what + ": the reader was too slow"};
  }
  return Error::from_errno(what, error_number_);
}

}  // namespace distrun
