#include "common/os/whole_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/os/write_all.h"
#include "common/units.h"

namespace distrun {

namespace {

Error unfit(std::string why) { return {ErrorKind::kInvalidArgument, std::move(why)}; }

// Does not trust fstat()'s size: the file may change.
Result<std::string> read_all(int fd, std::size_t bytes_max) {
  constexpr std::size_t kPieceBytes = 64 * kKiB;
  std::string text;
  for (ssize_t got = 1; got != 0 && text.size() <= bytes_max;) {
    const std::size_t size = text.size();
    text.resize(std::min(size + kPieceBytes, bytes_max + 1));
    got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno != EINTR) return Error::from_errno("read");
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  if (text.size() <= bytes_max) return text;
  return unfit(fmt::format("it is longer than {} MiB", bytes_max / kMiB));
}

mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

Result<std::optional<std::string>> read_whole_file(const std::string& path, std::size_t bytes_max) {
  // O_NONBLOCK, because opening a pipe would block.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT) return std::optional<std::string>();
  if (!file) return Error::from_errno(path);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return Error::from_errno(path);
  if (!S_ISREG(status.st_mode)) return unfit("it is not a regular file").with_context(path);

  auto text = read_all(file.get(), bytes_max);
  if (!text) return text.error().with_context(path);
  return std::optional(std::move(*text));
}

Result<void> replace_file(const std::string& path, std::string_view text) {
  std::string unfinished = path + ".XXXXXX";
  const UniqueFd file(::mkostemp(unfinished.data(), O_CLOEXEC));
  if (!file) return Error::from_errno("write " + path);
  if (!write_all(file.get(), text) || ::fchmod(file.get(), mode_of_new_files()) != 0 ||
      std::rename(unfinished.c_str(), path.c_str()) != 0) {
    Error error = Error::from_errno("write " + path);
    ::unlink(unfinished.c_str());
    return error;
  }
  return {};
}

Result<void> try_to_replace(const std::string& path) {
  std::string unfinished = path + ".XXXXXX";
  const UniqueFd file(::mkostemp(unfinished.data(), O_CLOEXEC));
  if (!file) return Error::from_errno("write " + path);
  ::unlink(unfinished.c_str());
  return {};
}

}  // namespace distrun
