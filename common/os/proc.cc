#include "common/os/proc.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/text/parse_number.h"

namespace distrun {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end;
       it.increment(error)) {
    if (const auto pid = parse_number<pid_t>(it->path().filename().string())) pids.push_back(*pid);
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

std::string proc_file(pid_t pid, const char* name) {
  // Not a stream: a stream throws if the process ends while it reads.
  const std::string path = fmt::format("/proc/{}/{}", pid, name);
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> piece;
  while (file) {
    const auto size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return "";
    if (size == 0) break;
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
  return text;
}

std::string process_name(pid_t pid) {
  std::string name = proc_file(pid, "comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

}  // namespace distrun
