#include "launcher/control/run_address.h"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>

#include "common/text/parse_number.h"

namespace distrun {

namespace {

constexpr std::string_view kRunSocket = "distrun/run/";

}  // namespace

std::string socket_name(const RunAddress& run) {
  return fmt::format("{}{}/{}", kRunSocket, run.guard, run.launcher);
}

std::optional<RunAddress> run_address_from(std::string_view name) {
  if (!name.starts_with(kRunSocket)) return std::nullopt;
  name.remove_prefix(kRunSocket.size());
  const auto slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto guard = parse_number<pid_t>(name.substr(0, slash));
  const auto launcher = parse_number<pid_t>(name.substr(slash + 1));
  if (!guard || !launcher) return std::nullopt;
  return RunAddress{*guard, *launcher};
}

// A line is "Num RefCount Protocol Flags Type St Inode Path"; '@' stands for the zero byte.
std::vector<RunAddress> runs_here() {
  std::vector<RunAddress> runs;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    const auto at = line.find('@');
    if (at == std::string::npos) continue;
    const auto run = run_address_from(std::string_view(line).substr(at + 1));
    // Connections have the name as well.
    if (run && std::find(runs.begin(), runs.end(), *run) == runs.end()) runs.push_back(*run);
  }
  std::sort(runs.begin(), runs.end(),
            [](const RunAddress& one, const RunAddress& other) { return one.guard < other.guard; });
  return runs;
}

}  // namespace distrun
