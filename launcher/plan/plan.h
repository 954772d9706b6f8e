// LaunchPlan is everything decided before the first process starts: the workers, their ranks and
// commands.
//
//     auto plan = make_plan(options, command, environment);
//     if (!plan) return plan.error();
//     for (const WorkerPlan& worker : plan->workers) …
//
// Pure, except for bind_workers(). worker_environment.h has the variables of a worker.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/os/cpu_set.h"
#include "common/os/environment.h"
#include "common/rank.h"
#include "distrun/result.h"
#include "launcher/plan/command.h"
#include "launcher/plan/options.h"

namespace distrun {

struct WorkerPlan {
  Rank rank;
  LocalRank local_rank;
  std::vector<std::string> arguments;  // Including argv[0].
  CpuSet cpus = {};                    // It runs only on these; empty: on the launcher's.
};

struct LaunchPlan {
  LaunchOptions options;
  std::string executable;
  Environment environment;          // The launcher's; workers inherit it.
  std::vector<WorkerPlan> workers;  // By local rank.
  // Over all nodes; ROLE_RANK of the first worker here, and the number of workers with its role.
  int world_size = 0;
  int role_rank_base = 0, role_world_size = 0;
};

// `${local_rank}` in the arguments becomes the worker's local rank, as in torchrun. Fails with
// kInvalidArgument if the number of workers is not positive, or a worker has no device under
// --virtual-local-rank.
Result<LaunchPlan> make_plan(const LaunchOptions& options, const Command& command,
                             const Environment& environment);

// Under --numa-binding, chooses the CPUs of each worker. Fails with kInvalidArgument, and names the
// flag. `root` contains /proc, /sys and /dev.
Result<void> bind_workers(LaunchPlan& plan, const std::string& root = "");

// LOCAL_RANK and LOCAL_WORLD_SIZE of a worker, and GROUP_RANK and GROUP_WORLD_SIZE, if known. An
// engine gives those of a task that is one rank.
struct LocalPlace {
  LocalRank rank;
  int ranks = 1;
  std::optional<int> node, nodes;
};
LocalPlace local_place(const LaunchPlan& plan, LocalRank worker);

// The arguments, quoted for a shell.
std::string command_line(const WorkerPlan& worker);

// One node's: RANK and ROLE_RANK of its first worker, WORLD_SIZE and ROLE_WORLD_SIZE.
struct NodeRanks {
  int rank_base = 0, world_size = 1;
  int role_rank_base = 0, role_world_size = 1;
};

// With several nodes, ranks are known after all nodes have joined.
void place_ranks(LaunchPlan& plan, const NodeRanks& ranks);

}  // namespace distrun
