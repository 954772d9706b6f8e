// The GPUs of this machine and the CPUs near them, from /proc and /sys.
//
//     auto machine = read_numa_machine(CpuGroup::kCore, usable_cpus());
//     if (!machine) return machine.error();    // "cannot read /sys/…: no such file or directory"
//
// Loads neither CUDA nor NVML: distrun needs no library, and CUDA takes seconds to start. Finds
// only NVIDIA GPUs.
#pragma once

#include <string>
#include <vector>

#include "common/os/cpu_set.h"
#include "distrun/result.h"

namespace distrun {

struct Gpu {
  std::string address;  // On the PCI bus: "0000:dc:00.0".
  std::string uuid;     // "GPU-8932f937-…"; has question marks until the GPU was used once.
  int node = 0;         // NUMA node.
};

// What CPUs may have in common.
enum class CpuGroup {
  kNode,    // Only the NUMA node.
  kSocket,  // The socket.
  kCore,    // The physical core.
  kCache,   // The data cache of the highest level.
};

struct NumaCpu {
  int number = 0;
  int node = 0;
  int group = 0;  // Number of the socket, or lowest CPU of the core or the cache.
};

struct NumaMachine {
  std::vector<Gpu> gpus;      // In the order of PCI addresses.
  std::vector<NumaCpu> cpus;  // By number.
};

// Has only CPUs in `allowed`, and only GPUs whose device file this process may use, as CUDA. Fails
// with kInvalidArgument, and names the file that cannot be read. `root` contains /proc, /sys and
// /dev.
Result<NumaMachine> read_numa_machine(CpuGroup group, const CpuSet& allowed,
                                      const std::string& root = "");

}  // namespace distrun
