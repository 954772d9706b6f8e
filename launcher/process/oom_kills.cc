#include "launcher/process/oom_kills.h"

#include <fmt/format.h>

#include "common/os/cgroup.h"

namespace distrun {

namespace {

std::optional<std::uint64_t> kills_in(const std::string& path) {
  return named_number(path, "oom_kill");
}

std::optional<std::uint64_t> kills_of_cgroup(const std::string& root) {
  for (const Cgroup& group : memory_cgroups(root)) {
    const char* file = group.version == 2 ? "/memory.events" : "/memory.oom_control";
    if (const auto count = kills_in(group.folder() + file)) return count;
  }
  return std::nullopt;
}

std::uint64_t grown(const std::optional<std::uint64_t>& before,
                    const std::optional<std::uint64_t>& after) {
  return before && after && *after > *before ? *after - *before : 0;
}

}  // namespace

OomKills OomKills::read(const std::string& root) {
  return {kills_of_cgroup(root), kills_in(root + "/proc/vmstat")};
}

std::string oom_evidence(const OomKills& before, const OomKills& after) {
  const auto text = [](std::uint64_t count, const char* where) {
    return fmt::format("probably out of memory: the kernel's OOM killer killed {} process{} of {}",
                       count, count == 1 ? "" : "es", where);
  };
  if (const auto count = grown(before.cgroup, after.cgroup)) return text(count, "this cgroup");
  if (const auto count = grown(before.machine, after.machine)) return text(count, "this machine");
  return "";
}

}  // namespace distrun
