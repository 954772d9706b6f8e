#include "launcher/control/run_address.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <sys/stat.h>

#include "common/text/parse_number.h"

namespace distrun {

namespace {

constexpr std::string_view kRunSocket = "distrun/run/";

}  // namespace

std::uint64_t own_pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::string socket_name(const RunAddress& run) {
  return fmt::format("{}{}/{}/{}", kRunSocket, run.pid_namespace, run.guard, run.launcher);
}

std::optional<RunAddress> run_address_from(std::string_view name) {
  if (!name.starts_with(kRunSocket)) return std::nullopt;
  name.remove_prefix(kRunSocket.size());
  const auto first = name.find('/'), last = name.rfind('/');
  if (first == last) return std::nullopt;
  const auto space = parse_number<std::uint64_t>(name.substr(0, first));
  const auto guard = parse_number<pid_t>(name.substr(first + 1, last - first - 1));
  const auto launcher = parse_number<pid_t>(name.substr(last + 1));
  if (!space || !guard || !launcher) return std::nullopt;
  return RunAddress{*space, *guard, *launcher};
}

// A line is "Num RefCount Protocol Flags Type St Inode Path"; '@' is the zero byte.
std::vector<RunAddress> runs_here() {
  const std::uint64_t here = own_pid_namespace();
  std::vector<RunAddress> runs;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find('@');
    if (at == std::string::npos) continue;
    const auto run = run_address_from(std::string_view(line).substr(at + 1));
    // Connections have the same name.
    if (!run || run->pid_namespace != here) continue;
    if (std::find(runs.begin(), runs.end(), *run) == runs.end()) runs.push_back(*run);
  }
  std::sort(runs.begin(), runs.end(),
            [](const RunAddress& one, const RunAddress& other) { return one.guard < other.guard; });
  return runs;
}

}  // namespace distrun
