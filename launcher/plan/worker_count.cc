#include "launcher/plan/worker_count.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <unistd.h>

#include "common/os/cpu_set.h"
#include "common/text/parse_number.h"
#include "common/text/words.h"

namespace distrun {

namespace {

constexpr int kWorkersMax = 65536;

}  // namespace

Result<int> parse_worker_count(std::string_view text, const Machine& machine) {
  if (text == "cpu") return machine.cpus;
  if (text == "auto") return machine.gpus > 0 ? machine.gpus : machine.cpus;
  if (text == "gpu") {
    if (machine.gpus > 0) return machine.gpus;
    return Error{ErrorKind::kInvalidArgument,
                 "'gpu': no GPU is visible: /dev/nvidia0 does not exist or cannot be opened, or "
                 "CUDA_VISIBLE_DEVICES hides all GPUs; give a number or 'cpu'"};
  }
  if (text == "xpu") {
    return Error{ErrorKind::kInvalidArgument, "distrun cannot count 'xpu' devices; give a number"};
  }
  auto workers = parse_number<int>(text, 1, kWorkersMax);
  if (!workers && text.find_first_not_of("+-0123456789") != std::string_view::npos) {
    return Error{ErrorKind::kInvalidArgument,
                 "'" + std::string(text) + "' is neither a number nor 'cpu', 'gpu' or 'auto'"};
  }
  return workers;
}

int visible_gpus(int gpus, const std::optional<std::string>& visible_devices) {
  if (!visible_devices) return gpus;
  std::set<std::string> seen;
  for (const std::string& device : listed_devices(*visible_devices)) {
    const bool by_name = device.starts_with("GPU-") || device.starts_with("MIG-");
    if (!by_name && !parse_number<int>(device, 0, gpus - 1)) break;
    if (!seen.insert(device).second) return 0;
  }
  return static_cast<int>(seen.size());
}

std::vector<std::string> listed_devices(std::string_view visible_devices) {
  std::vector<std::string> devices;
  for (std::size_t begin = 0; begin <= visible_devices.size();) {
    const std::size_t end = std::min(visible_devices.find(',', begin), visible_devices.size());
    devices.emplace_back(trimmed(visible_devices.substr(begin, end - begin)));
    begin = end + 1;
  }
  return devices;
}

int gpu_files(const std::string& root) {
  int found = 0;
  std::error_code error;
  for (const auto& file : std::filesystem::directory_iterator(root + "/dev", error)) {
    const std::string name = file.path().filename().string();
    constexpr std::string_view kPrefix = "nvidia";
    if (!name.starts_with(kPrefix)) continue;
    if (!parse_number<int>(name.substr(kPrefix.size()), 0)) continue;
    // Also the kernel's control groups, by which Slurm and containers hide GPUs, refuse access().
    if (::access(file.path().c_str(), R_OK | W_OK) == 0) ++found;
  }
  return found;
}

Machine this_machine(const Environment& environment) {
  return {.cpus = std::max(static_cast<int>(usable_cpus().size()), 1),
          .gpus = visible_gpus(gpu_files(), environment.get("CUDA_VISIBLE_DEVICES"))};
}

}  // namespace distrun
