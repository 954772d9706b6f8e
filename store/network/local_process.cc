#include "store/network/local_process.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/os/proc.h"
#include "common/text/parse_number.h"

namespace distrun {

namespace {

namespace fs = std::filesystem;

// Reads "socket:[12345]", the link in /proc/PID/fd of a socket.
std::optional<std::uint64_t> inode_of(std::string_view link) {
  constexpr std::string_view kPrefix = "socket:[";
  if (!link.starts_with(kPrefix) || !link.ends_with(']')) return std::nullopt;
  link.remove_prefix(kPrefix.size());
  link.remove_suffix(1);
  const auto inode = parse_number<std::uint64_t>(link);
  return inode ? std::optional(*inode) : std::nullopt;
}

std::optional<int> number_in(std::string_view environment, std::string_view name) {
  for (std::size_t begin = 0; begin < environment.size();) {
    const std::size_t end = std::min(environment.find('\0', begin), environment.size());
    const std::string_view variable = environment.substr(begin, end - begin);
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      const auto number = parse_number<int>(variable.substr(name.size() + 1));
      return number ? std::optional(*number) : std::nullopt;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

LocalProcess process_of(pid_t pid) {
  const std::string environment = proc_file(pid, "environ");
  return {pid, number_in(environment, "RANK"), number_in(environment, "WORLD_SIZE"),
          process_name(pid)};
}

}  // namespace

std::unordered_set<std::uint64_t> sockets_of(pid_t pid) {
  std::unordered_set<std::uint64_t> inodes;
  std::error_code error;
  for (fs::directory_iterator it(fs::path("/proc") / std::to_string(pid) / "fd", error), end;
       !error && it != end; it.increment(error)) {
    std::error_code gone;
    const auto inode = inode_of(fs::read_symlink(it->path(), gone).string());
    if (!gone && inode) inodes.insert(*inode);
  }
  return inodes;
}

std::unordered_map<std::uint64_t, LocalProcess> processes_of_sockets(
    const std::unordered_set<std::uint64_t>& inodes) {
  std::unordered_map<std::uint64_t, LocalProcess> processes;
  for (const pid_t pid : all_processes()) {
    if (processes.size() == inodes.size()) break;
    std::optional<LocalProcess> process;
    for (const std::uint64_t inode : sockets_of(pid)) {
      if (!inodes.contains(inode)) continue;
      if (!process) process = process_of(pid);
      processes.try_emplace(inode, *process);
    }
  }
  return processes;
}

}  // namespace distrun
