#include "common/os/result_file.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/wait_writable.h"
#include "common/os/whole_file.h"

namespace distrun {

namespace {

Error unusable(const std::string& path, int error_number) {
  Error error = Error::from_errno("write " + path, error_number);
  struct stat status {};
  if (error_number == ENXIO && ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) {
    error.message = "write " + path + ": no process reads it; start the reader first";
  }
  error.kind = ErrorKind::kInvalidArgument;
  return error;
}

// Processes that have such a file open would not see its replacement.
bool is_to_stay(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return true;
  return path == "/dev/stdout" || path == "/dev/stderr" || path.starts_with("/dev/fd/") ||
         path.starts_with("/proc/");
}

// Resolves symbolic links, so that they are not replaced.
std::string target_of(const std::string& path) {
  std::error_code none;
  const auto target = std::filesystem::canonical(path, none);
  return none ? path : target.string();
}

bool wait_to_write(int fd) {
  return wait_writable(fd, std::chrono::steady_clock::now() + ResultFile::kPatience);
}

}  // namespace

bool is_stdout(const std::string& path) {
  return path == "/dev/stdout" || path == "/dev/fd/1" || path == "/proc/self/fd/1";
}

bool are_same_file(const std::string& path, const std::string& other) {
  if (is_stdout(path) && is_stdout(other)) return true;
  std::error_code none;
  const auto place = std::filesystem::weakly_canonical(std::filesystem::absolute(path), none);
  return place == std::filesystem::weakly_canonical(std::filesystem::absolute(other), none) &&
         !std::filesystem::is_character_file(place, none);
}

Result<ResultFile> ResultFile::open(const std::string& path) {
  if (is_to_stay(path)) {
    UniqueFd fd(
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
    if (!fd) return unusable(path, errno);
    return ResultFile(path, std::move(fd));
  }
  if (::access(path.c_str(), W_OK) != 0 && errno != ENOENT) return unusable(path, errno);
  if (const auto fits = try_to_replace(target_of(path)); !fits) {
    return Error{ErrorKind::kInvalidArgument, fits.error().message};
  }
  return ResultFile(path, UniqueFd());
}

Result<void> ResultFile::write(std::string_view text) const {
  if (!fd_) return replace_file(target_of(path_), text);
  while (!text.empty()) {
    const auto done = ::write(fd_.get(), text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EAGAIN) {
      if (wait_to_write(fd_.get())) continue;
      return Error{ErrorKind::kTimedOut, "write " + path_ + ": its reader does not read"};
    }
    if (done < 0) return Error::from_errno("write " + path_);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return {};
}

}  // namespace distrun
