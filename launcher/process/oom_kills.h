// OomKills counts whom the kernel has killed because memory ran out: looked at twice, it tells
// whether a SIGKILL that nobody owns up to may have come from there.
//
//     const auto before = OomKills::read();
//     …
//     oom_evidence(before, OomKills::read())   // "the kernel's OOM killer ended 1 process of …",
//     ""
//
// A counter says how many, not who.  Reads two small files of /proc and /sys (cgroup v2 and v1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace distrun {

struct OomKills {
  std::optional<std::uint64_t> cgroup;   // Of the cgroup this process is in, and those below it.
  std::optional<std::uint64_t> machine;  // Of the whole machine.

  // Nothing where it cannot be known.  `root` is where /proc and /sys are.
  static OomKills read(const std::string& root = "");
};

// What has happened between the two, as a fragment; empty where there is no sign of it.
std::string oom_evidence(const OomKills& before, const OomKills& after);

}  // namespace distrun
