// The number of workers that `--nproc-per-node` asks for.
//
//     auto workers = parse_worker_count("auto", {.cpus = 8, .gpus = 0});     // 8
//
// A number; `cpu`, one per core that this process may use; `gpu`, one per visible GPU; `auto`, one
// per GPU if there are any, else one per core. As torch/distributed/run.py, but without calling
// CUDA, which takes seconds: GPUs are the files /dev/nvidia0, /dev/nvidia1, … that can be opened
// and that CUDA_VISIBLE_DEVICES allows.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

struct Machine {
  int cpus = 1;
  int gpus = 0;
};

// Fails with kInvalidArgument for other texts, and for `gpu` without GPUs. Pure.
Result<int> parse_worker_count(std::string_view text, const Machine& machine);

// How many of `gpus` devices programs see under CUDA_VISIBLE_DEVICES (nullopt: all). As in CUDA,
// the first invalid entry ends the list, and a duplicate makes it empty. Pure.
int visible_gpus(int gpus, const std::optional<std::string>& visible_devices);

// The entries of CUDA_VISIBLE_DEVICES, without spaces around them. Pure.
std::vector<std::string> listed_devices(std::string_view visible_devices);

// The device files of NVIDIA's GPUs that this process may open, as --numa-binding counts them.
// `root` contains /dev.
int gpu_files(const std::string& root = "");

// This machine, as seen by a process with this environment.
Machine this_machine(const Environment& environment);

}  // namespace distrun
