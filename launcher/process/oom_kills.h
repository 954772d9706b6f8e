// OomKills counts processes that the kernel killed because memory ran out. Two readings show
// whether an unexplained SIGKILL may have come from the OOM killer.
//
//     const auto before = OomKills::read();
//     …
//     oom_evidence(before, OomKills::read())   // "probably out of memory: …", or ""
//
// The counters do not name processes. Reads two small files of /proc and /sys (cgroup v2 and v1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace distrun {

struct OomKills {
  std::optional<std::uint64_t> cgroup;   // In this process's cgroup and those below it.
  std::optional<std::uint64_t> machine;  // On the whole machine.

  // nullopt for unknown counters. `root` contains /proc and /sys.
  static OomKills read(const std::string& root = "");
};

// A fragment about kills between the two readings, or empty.
std::string oom_evidence(const OomKills& before, const OomKills& after);

}  // namespace distrun
