// How many workers `--nproc-per-node` asks for.
//
//     auto workers = parse_worker_count("auto", {.cpus = 8, .gpus = 0});     // 8
//
// A number; `cpu`, one for each core that this process may use; `gpu`, one for each GPU that
// programs see; `auto`, GPUs where there are any, else cores.  As torch/distributed/run.py has it,
// without a call to CUDA, which would cost seconds: GPUs are the files /dev/nvidia0, /dev/nvidia1,
// … as far as CUDA_VISIBLE_DEVICES lets them be seen.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

struct Machine {
  int cpus = 1;
  int gpus = 0;
};

// Fails with kInvalidArgument for anything else, and where there is no GPU to count.  Pure.
Result<int> parse_worker_count(std::string_view text, const Machine& machine);

// Of `gpus` devices those that programs see, by the value of CUDA_VISIBLE_DEVICES (nothing: all).
// As CUDA reads it: up to the first entry that is no device; none where one is named twice.  Pure.
int visible_gpus(int gpus, const std::optional<std::string>& visible_devices);

// This machine, for a process with this environment.
Machine this_machine(const Environment& environment);

}  // namespace distrun
