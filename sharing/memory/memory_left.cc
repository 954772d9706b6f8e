#include "sharing/memory/memory_left.h"

#include <algorithm>
#include <fstream>

#include "common/os/cgroup.h"
#include "common/units.h"

namespace distrun::internal {

namespace {

// Empty for "max".
std::optional<std::size_t> number_in(const std::string& path) {
  std::size_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return std::nullopt;
}

std::size_t difference(std::size_t all, std::size_t used) { return all - std::min(all, used); }

// The path of this process's control group: "/", "/a/b".
std::string group_of_this_process(const std::string& root) {
  for (const Cgroup& group : memory_cgroups(root)) {
    if (group.version == 2 && group.path.starts_with('/')) return group.path;
  }
  return "/";
}

std::optional<std::size_t> left_in_group(const std::string& folder, std::size_t swap_left) {
  const auto most = number_in(folder + "/memory.max");
  const auto used = number_in(folder + "/memory.current");
  if (!most || !used) return std::nullopt;
  const std::size_t cached = named_number(folder + "/memory.stat", "active_file").value_or(0) +
                             named_number(folder + "/memory.stat", "inactive_file").value_or(0);
  if (const auto swap = number_in(folder + "/memory.swap.max")) {
    const auto swapped = number_in(folder + "/memory.swap.current").value_or(0);
    swap_left = std::min(swap_left, difference(*swap, swapped));
  }
  return difference(*most, difference(*used, cached)) + swap_left;
}

}  // namespace

std::optional<std::size_t> memory_left(const std::string& root) {
  const std::string facts = root + "/proc/meminfo";
  const std::size_t swap = named_number(facts, "SwapFree:").value_or(0) * kKiB;
  std::optional<std::size_t> left;
  if (const auto available = named_number(facts, "MemAvailable:")) left = *available * kKiB + swap;
  const std::string groups = root + "/sys/fs/cgroup";
  for (std::string group = group_of_this_process(root);; group.resize(group.rfind('/'))) {
    const auto in_group = left_in_group(groups + group, swap);
    if (in_group) left = std::min(left.value_or(*in_group), *in_group);
    if (group.empty()) return left;
  }
}

}  // namespace distrun::internal
