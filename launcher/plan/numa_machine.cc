#include "launcher/plan/numa_machine.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "common/os/whole_file.h"
#include "common/text/parse_number.h"
#include "common/units.h"

namespace distrun {

namespace {

Error unreadable(const std::string& what) {
  return {ErrorKind::kInvalidArgument, fmt::format("cannot read {}; remove the flag", what)};
}

// Without the end of its last line.
Result<std::string> text_of(const std::string& path) {
  auto text = read_whole_file(path, kMiB);
  if (!text) return unreadable(text.error().message);
  if (!*text) return unreadable(Error::from_errno(path, ENOENT).message);
  if ((*text)->ends_with('\n')) (*text)->pop_back();
  return std::move(**text);
}

Result<int> number_in(const std::string& path) {
  const auto text = text_of(path);
  if (!text) return text.error();
  const auto number = parse_number<int>(*text);
  if (!number) return unreadable(path + ": " + number.error().message);
  return *number;
}

Result<CpuSet> cpus_in(const std::string& path) {
  const auto text = text_of(path);
  if (!text) return text.error();
  auto cpus = parse_cpu_list(*text);
  if (!cpus) return unreadable(path + ": " + cpus.error().message);
  return cpus;
}

std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator file(folder, error); !error && file != end;
       file.increment(error)) {
    names.push_back(file->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The names in `folder` that are `prefix` and a number.
Result<std::map<int, std::string>> numbered_in(const std::string& folder,
                                               const std::string& prefix) {
  std::error_code error;
  std::map<int, std::string> found;
  for (const std::string& name : names_in(folder, error)) {
    if (!name.starts_with(prefix)) continue;
    const auto number = parse_number<int>(std::string_view(name).substr(prefix.size()), 0);
    if (number) found[*number] = fmt::format("{}/{}", folder, name);
  }
  if (error) return unreadable(Error::from_errno(folder, error.value()).message);
  return found;
}

// The text after `name` in a line such as "Device Minor: \t 3".
std::string field(const std::string& information, std::string_view name) {
  std::istringstream lines(information);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const std::size_t begin = line.find_first_not_of(" \t", name.size());
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// nullopt: CUDA does not see it.
Result<std::optional<Gpu>> read_gpu(const std::string& address, const std::string& root) {
  const std::string path = root + "/proc/driver/nvidia/gpus/" + address + "/information";
  const auto information = text_of(path);
  if (!information) return information.error();
  const auto minor = parse_number<int>(field(*information, "Device Minor:"), 0);
  if (!minor) return unreadable(path + ": Device Minor: " + minor.error().message);
  if (field(*information, "GPU Excluded:") == "Yes") return std::optional<Gpu>();
  // Also the kernel's control groups, by which Slurm and containers hide GPUs, refuse access().
  const std::string device = root + "/dev/nvidia" + std::to_string(*minor);
  if (::access(device.c_str(), R_OK | W_OK) != 0) return std::optional<Gpu>();
  const auto node = number_in(root + "/sys/bus/pci/devices/" + address + "/numa_node");
  if (!node) return node.error();
  // -1: the machine has a single node, or its firmware does not say.
  return std::optional(Gpu{address, field(*information, "GPU UUID:"), std::max(*node, 0)});
}

Result<std::vector<Gpu>> read_gpus(const std::string& root) {
  std::error_code error;
  // Without the driver, the folder does not exist.
  std::vector<std::string> addresses = names_in(root + "/proc/driver/nvidia/gpus", error);
  // A PCI domain may have more than four digits.
  std::stable_sort(addresses.begin(), addresses.end(),
                   [](const auto& one, const auto& other) { return one.size() < other.size(); });
  std::vector<Gpu> gpus;
  for (const std::string& address : addresses) {
    auto gpu = read_gpu(address, root);
    if (!gpu) return gpu.error();
    if (*gpu) gpus.push_back(std::move(**gpu));
  }
  return gpus;
}

Result<CpuSet> cpus_of_largest_cache(const std::string& cpu_folder) {
  const auto caches = numbered_in(cpu_folder + "/cache", "index");
  if (!caches) return caches.error();
  int highest = -1;
  std::string largest;
  for (const auto& [index, folder] : *caches) {
    const auto type = text_of(folder + "/type");
    if (!type) return type.error();
    if (*type != "Unified" && *type != "Data") continue;
    const auto level = number_in(folder + "/level");
    if (!level) return level.error();
    if (*level > highest) {
      highest = *level;
      largest = folder;
    }
  }
  if (largest.empty()) return unreadable(cpu_folder + "/cache: it lists no data cache");
  return cpus_in(largest + "/shared_cpu_list");
}

// The group of each CPU.
Result<std::map<int, int>> read_groups(CpuGroup group, const CpuSet& cpus,
                                       const std::string& root) {
  std::map<int, int> groups;
  for (const int cpu : cpus) {
    if (group == CpuGroup::kNode) break;
    if (groups.contains(cpu)) continue;
    const std::string folder = fmt::format("{}/sys/devices/system/cpu/cpu{}", root, cpu);
    if (group == CpuGroup::kSocket) {
      const auto socket = number_in(folder + "/topology/physical_package_id");
      if (!socket) return socket.error();
      groups[cpu] = *socket;
      continue;
    }
    auto same = group == CpuGroup::kCore ? cpus_in(folder + "/topology/thread_siblings_list")
                                         : cpus_of_largest_cache(folder);
    if (!same) return same.error();
    same->insert(cpu);
    for (const int other : *same) groups[other] = *same->begin();
  }
  return groups;
}

}  // namespace

Result<NumaMachine> read_numa_machine(CpuGroup group, const CpuSet& allowed,
                                      const std::string& root) {
  NumaMachine machine;
  auto gpus = read_gpus(root);
  if (!gpus) return gpus.error();
  machine.gpus = std::move(*gpus);
  if (machine.gpus.empty()) return machine;

  const auto nodes = numbered_in(root + "/sys/devices/system/node", "node");
  if (!nodes) return nodes.error();
  auto groups = read_groups(group, allowed, root);
  if (!groups) return groups.error();
  for (const auto& [node, folder] : *nodes) {
    const auto cpus = cpus_in(folder + "/cpulist");
    if (!cpus) return cpus.error();
    for (const int cpu : *cpus) {
      if (allowed.contains(cpu)) machine.cpus.push_back({cpu, node, (*groups)[cpu]});
    }
  }
  std::sort(machine.cpus.begin(), machine.cpus.end(),
            [](const NumaCpu& one, const NumaCpu& other) { return one.number < other.number; });
  return machine;
}

}  // namespace distrun
