#include "launcher/report/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/wait_writable.h"
#include "common/text/trace_event.h"

namespace distrun {

namespace {

// Events are written in pieces of this size, at least once a second.
constexpr std::size_t kPieceBytes = 64 * kKiB;
constexpr int kTracePipeBytes = 1 << 20;  // The limit for unprivileged processes.

struct Written {
  std::size_t bytes = 0;
  int error_number = 0;  // 0: everything was written.
};

// `write` gets the rest of the text, and how much is before that.
Written write_some(std::string_view text, auto write) {
  Written done;
  while (done.bytes < text.size()) {
    const auto size = write(text.substr(done.bytes), done.bytes);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return {done.bytes, size < 0 ? errno : EIO};
    done.bytes += static_cast<std::size_t>(size);
  }
  return done;
}

// Each event starts a line.
std::size_t lines_in(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string events_are(std::size_t count) {
  return fmt::format("{} event{}", count, count == 1 ? " is" : "s are");
}

}  // namespace

Result<TraceFile> TraceFile::open(const std::string& path, std::uint64_t bytes_max) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666));
  if (!fd && errno == ENXIO) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--trace {}: has no reader; start it first", path)};
  }
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return Error{ErrorKind::kInvalidArgument, Error::from_errno("--trace " + path).message};
  }
  ::fcntl(fd.get(), F_SETPIPE_SZ, kTracePipeBytes);  // May fail: not a pipe, or a lower limit.
  return TraceFile(path, std::move(fd), S_ISREG(status.st_mode), bytes_max);
}

void TraceFile::begin(std::string_view head) {
  kept_ = head;
  if (is_regular_) static_cast<void>(::ftruncate(fd_.get(), 0));
  flush();
}

void TraceFile::add(std::string_view events) {
  const std::size_t bytes = events.size() + kTraceSeparator.size();
  if (left_out_ > 0 || written_ + kept_.size() + bytes + kTraceTail.size() > bytes_max_) {
    left_out_ += 1 + lines_in(events);
    return;
  }
  if (kept_.size() + bytes > kKeptBytesMax) {
    dropped_ += 1 + lines_in(events);
    return;
  }
  if (std::exchange(has_events_, true)) kept_ += kTraceSeparator;
  kept_ += events;
  // After an error, each attempt could be slow.
  if (kept_.size() >= kPieceBytes && !is_stuck_) flush();
}

void TraceFile::flush() {
  if (kept_.empty()) return;
  const int error_number = is_regular_ ? write_at_end() : append();
  is_stuck_ = error_number != 0;
  if (is_stuck_) error_number_ = error_number;
}

int TraceFile::write_at_end() {
  const auto write = [this](std::string_view text, std::size_t after) {
    return ::pwrite(fd_.get(), text.data(), text.size(), static_cast<off_t>(written_ + after));
  };
  const int error_number = write_some(kept_ + std::string(kTraceTail), write).error_number;
  if (error_number == 0) {
    written_ += kept_.size();
    kept_.clear();
    return 0;
  }
  // A full disk still has room for the tail that was there before.
  const bool has_tail = written_ > 0 && write_some(kTraceTail, write).error_number == 0;
  const std::uint64_t size = has_tail ? written_ + kTraceTail.size() : 0;
  if (has_tail || written_ == 0) {
    static_cast<void>(::ftruncate(fd_.get(), static_cast<off_t>(size)));
  }
  return error_number;
}

int TraceFile::append() {
  const auto [bytes, error_number] = write_some(kept_, [this](std::string_view text, std::size_t) {
    return ::write(fd_.get(), text.data(), text.size());
  });
  kept_.erase(0, bytes);
  written_ += bytes;
  return error_number;
}

std::optional<Error> TraceFile::finish(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  if (!is_regular_) kept_ += kTraceTail;
  flush();
  while (!kept_.empty() && error_number_ == EAGAIN) {
    if (!wait_writable(fd_.get(), deadline)) break;
    flush();
  }
  const std::size_t lines_of_tail = is_regular_ ? 0 : lines_in(kTraceTail);
  const std::size_t kept = lines_in(kept_) - std::min(lines_in(kept_), lines_of_tail);
  const std::string about = "--trace " + path_ + ": ";
  if (dropped_ + kept > 0) {
    const std::string what = about + events_are(dropped_ + kept) + " missing";
    if (error_number_ != EAGAIN) return Error::from_errno(what, error_number_);
    return Error{ErrorKind::kSystem, what + ": the reader was too slow"};
  }
  if (left_out_ == 0) return std::nullopt;
  return Error{ErrorKind::kSystem,
               fmt::format("{}the file has reached its limit of {} MiB; {} left out", about,
                           bytes_max_ / kMiB, events_are(left_out_))};
}

}  // namespace distrun
