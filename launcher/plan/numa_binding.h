// The CPUs of each worker under --numa-binding: those near its GPU.
//
//     auto kind = parse_numa_binding("exclusive");
//     auto machine = read_numa_machine(group_of(*kind), usable_cpus());
//     auto cpus = cpus_near_gpus(*kind, 8, *machine, environment.get("CUDA_VISIBLE_DEVICES"));
//
// As torch/numa/binding.py: the worker with local rank i has the visible GPU i. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/cpu_set.h"
#include "distrun/result.h"
#include "launcher/plan/numa_machine.h"

namespace distrun {

enum class NumaBinding {
  kNode,         // All CPUs of the GPU's NUMA node.
  kSocket,       // Those of all nodes of its socket.
  kExclusive,    // A share of the node's cores, the same for each GPU of the node. The first GPUs
                 // get one more core if need be.
  kCoreComplex,  // CPUs of the node that share a cache. The largest such groups come first; if
                 // there are more GPUs than groups, some GPUs have the same group.
};

// Fails with kInvalidArgument for other texts than torchrun's.
Result<NumaBinding> parse_numa_binding(std::string_view text);

// What the binding needs to know of CPUs.
CpuGroup group_of(NumaBinding binding);

// By local rank; no set is empty. GPUs have the numbers that CUDA gives them with
// CUDA_DEVICE_ORDER=PCI_BUS_ID. `visible_devices` is CUDA_VISIBLE_DEVICES. Fails with
// kInvalidArgument if a worker has no GPU, or its GPU no CPU.
Result<std::vector<CpuSet>> cpus_near_gpus(NumaBinding binding, int workers,
                                           const NumaMachine& machine,
                                           const std::optional<std::string>& visible_devices);

}  // namespace distrun
