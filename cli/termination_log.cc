#include "cli/termination_log.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/text/text_cut.h"

namespace distrun {

std::string_view termination_message(std::string_view text) {
  constexpr std::size_t kBytesMax = 4096;
  if (text.size() <= kBytesMax) return text;
  const std::string_view begin = cut_to_bytes(text, kBytesMax);
  const std::size_t newline = last_newline(begin);
  return newline == std::string_view::npos ? begin : begin.substr(0, newline + 1);
}

std::string default_termination_log(const Environment& environment) {
  const auto is_set = [&](const char* name) { return !environment.get(name).value_or("").empty(); };
  const bool writes = is_set("KUBERNETES_SERVICE_HOST") && !is_set("TORCHELASTIC_RUN_ID");
  return writes ? "/dev/termination-log" : "";
}

Result<void> TerminationLog::write(std::string_view text) const {
  if (path_.empty()) return {};
  const std::string what = "write " + path_;
  const UniqueFd file(
      ::open(path_.c_str(), O_WRONLY | O_TRUNC | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  if (!file && errno == ENOENT) return {};
  if (!file) return Error::from_errno(what);
  const std::string_view message = termination_message(text);
  const ssize_t written = ::write(file.get(), message.data(), message.size());
  return written < 0 ? Result<void>(Error::from_errno(what)) : Result<void>();
}

}  // namespace distrun
