#include "launcher/process/oom_kills.h"

#include <fstream>
#include <sstream>

#include <fmt/format.h>

namespace distrun {

namespace {

// The number behind the word "oom_kill" that begins a line.
std::optional<std::uint64_t> counter(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t count = 0;
    if (words >> name >> count && name == "oom_kill") return count;
  }
  return std::nullopt;
}

// Lines of /proc/self/cgroup read "0::/a/b", and "4:memory:/a/b" in version 1.
std::optional<std::uint64_t> counter_of_cgroup(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    std::optional<std::uint64_t> count;
    if (controllers == ",,") {
      count = counter(fmt::format("{}/sys/fs/cgroup{}/memory.events", root, path));
    } else if (controllers.find(",memory,") != std::string::npos) {
      count = counter(fmt::format("{}/sys/fs/cgroup/memory{}/memory.oom_control", root, path));
    }
    if (count) return count;
  }
  return std::nullopt;
}

std::uint64_t grown(const std::optional<std::uint64_t>& before,
                    const std::optional<std::uint64_t>& after) {
  return before && after && *after > *before ? *after - *before : 0;
}

}  // namespace

OomKills OomKills::read(const std::string& root) {
  return {counter_of_cgroup(root), counter(root + "/proc/vmstat")};
}

std::string oom_evidence(const OomKills& before, const OomKills& after) {
  const auto text = [](std::uint64_t count, const char* where) {
    return fmt::format(
        "out of memory, it seems: meanwhile the kernel's OOM killer ended {} process{} of {}",
        count, count == 1 ? "" : "es", where);
  };
  if (const auto count = grown(before.cgroup, after.cgroup)) return text(count, "this cgroup");
  if (const auto count = grown(before.machine, after.machine)) return text(count, "this machine");
  return "";
}

}  // namespace distrun
