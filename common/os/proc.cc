#include "common/os/proc.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>

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
  std::ifstream file(fmt::format("/proc/{}/{}", pid, name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string process_name(pid_t pid) {
  std::string name = proc_file(pid, "comm");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

}  // namespace distrun
