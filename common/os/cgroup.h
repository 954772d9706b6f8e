// The control groups (v2 and v1) that count this process's memory.
//
//     for (const Cgroup& group : memory_cgroups()) … group.folder() + "/memory.events" …
//
// Reads /proc/self/cgroup, whose lines are "0::/a/b" (v2) and "4:memory:/a/b" (v1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace distrun {

struct Cgroup {
  int version;        // 2 or 1.
  std::string mount;  // Where its hierarchy is: "/sys/fs/cgroup".
  std::string path;   // In there: "/", "/a/b".

  std::string folder() const { return mount + path; }
};

// In the order of the file; none if it cannot be read.  `root` is where /proc and /sys are.
std::vector<Cgroup> memory_cgroups(const std::string& root = "");

// The number behind `name`, the word that begins a line of the file, as memory.stat and
// /proc/meminfo have them.
std::optional<std::uint64_t> named_number(const std::string& path, const std::string& name);

}  // namespace distrun
