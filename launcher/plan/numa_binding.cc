#include "launcher/plan/numa_binding.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "common/text/parse_number.h"
#include "launcher/plan/worker_count.h"

namespace distrun {

namespace {

Error refused(std::string message) { return {ErrorKind::kInvalidArgument, std::move(message)}; }

// The GPU of an entry of CUDA_VISIBLE_DEVICES; nullptr if CUDA ignores this entry and the rest.
Result<const Gpu*> listed_gpu(const std::string& entry, const std::vector<Gpu>& gpus) {
  const Gpu* found = nullptr;
  if (entry.starts_with("MIG-")) {
    return refused(fmt::format(
        "CUDA_VISIBLE_DEVICES lists '{}': MIG devices are not supported; remove the flag", entry));
  }
  if (!entry.starts_with("GPU-")) {
    const auto number = parse_number<int>(entry, 0, static_cast<int>(gpus.size()) - 1);
    if (number) found = &gpus[static_cast<std::size_t>(*number)];
    return found;
  }
  for (const Gpu& gpu : gpus) {
    if (!gpu.uuid.starts_with(entry)) continue;
    if (found != nullptr) {
      return refused(
          fmt::format("CUDA_VISIBLE_DEVICES lists '{}', with which several UUIDs begin; "
                      "give more of the UUID",
                      entry));
    }
    found = &gpu;
  }
  if (found != nullptr) return found;
  return refused(
      fmt::format("CUDA_VISIBLE_DEVICES lists '{}', but no GPU in "
                  "/proc/driver/nvidia/gpus has this UUID; list numbers instead",
                  entry));
}

// In CUDA's order. As in CUDA, the list is empty if a GPU is listed twice.
Result<std::vector<Gpu>> visible(const std::vector<Gpu>& gpus,
                                 const std::optional<std::string>& visible_devices) {
  if (!visible_devices) return gpus;
  std::vector<Gpu> listed;
  for (const std::string& entry : listed_devices(*visible_devices)) {
    const auto gpu = listed_gpu(entry, gpus);
    if (!gpu) return gpu.error();
    if (*gpu == nullptr) break;
    const auto same = [&](const Gpu& other) { return other.address == (*gpu)->address; };
    if (std::any_of(listed.begin(), listed.end(), same)) return std::vector<Gpu>();
    listed.push_back(**gpu);
  }
  return listed;
}

std::vector<NumaCpu> cpus_of_node(const NumaMachine& machine, int node) {
  std::vector<NumaCpu> cpus;
  std::copy_if(machine.cpus.begin(), machine.cpus.end(), std::back_inserter(cpus),
               [node](const NumaCpu& cpu) { return cpu.node == node; });
  return cpus;
}

// Cores or caches, by their lowest CPU.
std::map<int, CpuSet> by_group(const std::vector<NumaCpu>& cpus) {
  std::map<int, CpuSet> groups;
  for (const NumaCpu& cpu : cpus) groups[cpu.group].insert(cpu.number);
  return groups;
}

CpuSet socket_cpus(const NumaMachine& machine, int node) {
  // The lowest CPU of a node says which socket the node belongs to.
  std::map<int, int> socket_of;
  for (const NumaCpu& cpu : machine.cpus) socket_of.try_emplace(cpu.node, cpu.group);
  const auto socket = socket_of.find(node);
  CpuSet cpus;
  if (socket == socket_of.end()) return cpus;
  for (const NumaCpu& cpu : machine.cpus) {
    if (socket_of[cpu.node] == socket->second) cpus.insert(cpu.number);
  }
  return cpus;
}

// A GPU's place among the GPUs of its NUMA node.
struct Place {
  std::size_t before = 0, count = 0;
};

Result<CpuSet> exclusive_cpus(const NumaMachine& machine, int node, Place place) {
  const auto cores = by_group(cpus_of_node(machine, node));
  CpuSet cpus;
  if (cores.empty()) return cpus;
  const std::size_t each = cores.size() / place.count, more = cores.size() % place.count;
  if (each == 0) {
    return refused(
        fmt::format("NUMA node {} has {} GPUs, but distrun may use only {} of its "
                    "cores; give KIND node instead of exclusive",
                    node, place.count, cores.size()));
  }
  const std::size_t first = place.before * each + std::min(place.before, more);
  const std::size_t size = each + (place.before < more ? 1 : 0);
  auto core = std::next(cores.begin(), static_cast<std::ptrdiff_t>(first));
  for (std::size_t i = 0; i < size; ++i, ++core)
    cpus.insert(core->second.begin(), core->second.end());
  return cpus;
}

CpuSet core_complex_cpus(const NumaMachine& machine, int node, Place place) {
  std::vector<CpuSet> caches;
  for (const auto& [lowest, cpus] : by_group(cpus_of_node(machine, node))) caches.push_back(cpus);
  if (caches.empty()) return {};
  std::stable_sort(caches.begin(), caches.end(), [](const CpuSet& one, const CpuSet& other) {
    return one.size() > other.size();
  });
  return caches[place.before % caches.size()];
}

Result<CpuSet> cpus_of(NumaBinding binding, const NumaMachine& machine, int node, Place place) {
  switch (binding) {
    case NumaBinding::kNode:
      break;
    case NumaBinding::kSocket:
      return socket_cpus(machine, node);
    case NumaBinding::kExclusive:
      return exclusive_cpus(machine, node, place);
    case NumaBinding::kCoreComplex:
      return core_complex_cpus(machine, node, place);
  }
  CpuSet cpus;
  for (const NumaCpu& cpu : cpus_of_node(machine, node)) cpus.insert(cpu.number);
  return cpus;
}

}  // namespace

Result<NumaBinding> parse_numa_binding(std::string_view text) {
  if (text == "node") return NumaBinding::kNode;
  if (text == "socket") return NumaBinding::kSocket;
  if (text == "exclusive") return NumaBinding::kExclusive;
  if (text == "core-complex") return NumaBinding::kCoreComplex;
  return refused(fmt::format("'{}' is not node, socket, exclusive or core-complex", text));
}

CpuGroup group_of(NumaBinding binding) {
  switch (binding) {
    case NumaBinding::kNode:
      break;
    case NumaBinding::kSocket:
      return CpuGroup::kSocket;
    case NumaBinding::kExclusive:
      return CpuGroup::kCore;
    case NumaBinding::kCoreComplex:
      return CpuGroup::kCache;
  }
  return CpuGroup::kNode;
}

Result<std::vector<CpuSet>> cpus_near_gpus(NumaBinding binding, int workers,
                                           const NumaMachine& machine,
                                           const std::optional<std::string>& visible_devices) {
  const auto gpus = visible(machine.gpus, visible_devices);
  if (!gpus) return gpus.error();
  if (gpus->empty()) {
    return refused(
        "no GPU is visible: /proc/driver/nvidia/gpus lists none that distrun may use, or "
        "CUDA_VISIBLE_DEVICES hides all GPUs; remove the flag");
  }
  const int count = static_cast<int>(gpus->size());
  if (workers > count) {
    return refused(fmt::format(
        "{} workers need {} visible GPUs, but there {} only {}; give --nproc-per-node {}, or "
        "remove the flag",
        workers, workers, count == 1 ? "is" : "are", count, count));
  }
  std::map<int, Place> places;  // By node.
  for (const Gpu& gpu : *gpus) ++places[gpu.node].count;
  std::vector<CpuSet> all;
  for (int worker = 0; worker < workers; ++worker) {
    const Gpu& gpu = (*gpus)[static_cast<std::size_t>(worker)];
    Place& place = places[gpu.node];
    auto cpus = cpus_of(binding, machine, gpu.node, place);
    if (!cpus) return cpus.error();
    if (cpus->empty()) {
      return refused(
          fmt::format("the GPU {} of local rank {} is on NUMA node {}, and distrun may use none of "
                      "its CPUs; allow them, or remove the flag",
                      gpu.address, worker, gpu.node));
    }
    all.push_back(std::move(*cpus));
    ++place.before;
  }
  return all;
}

}  // namespace distrun
