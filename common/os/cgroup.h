// The control groups (v2 and v1) that limit this process.
//
//     for (const Cgroup& group : memory_cgroups()) … group.folder() + "/memory.events" …
//     for (const Cgroup& group : cgroups("pids")) … group.folder() + "/pids.max" …
//
// Reads /proc/self/cgroup, whose lines are "0::/a/b" (v2) and "4:memory:/a/b" (v1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distrun {

struct Cgroup {
  int version;        // 1 or 2.
  std::string mount;  // Mount point: "/sys/fs/cgroup".
  std::string path;   // Below it: "/", "/a/b".

  std::string folder() const { return mount + path; }
};

// Those of a controller, in the order of the file; empty if it cannot be read. `root` contains
// /proc and /sys.
std::vector<Cgroup> cgroups(const std::string& controller, const std::string& root = "");
std::vector<Cgroup> memory_cgroups(const std::string& root = "");

// The number after `name`, the first word of a line, as in memory.stat and /proc/meminfo.
std::optional<std::uint64_t> named_number(const std::string& path, const std::string& name);

}  // namespace distrun
