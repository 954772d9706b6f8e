// LaunchPlan says who runs, as which rank, with which command: everything that
// is decided before the first process is started.
//
//     auto plan = make_plan(options, command, environment);
//     if (!plan) return plan.error();
//     for (const WorkerPlan& worker : plan->workers) …
//
// Pure.  What a worker finds in its environment is worker_environment.h.
#pragma once

#include <string>
#include <vector>

#include "common/os/environment.h"
#include "common/rank.h"
#include "distrun/result.h"
#include "launcher/plan/command.h"
#include "launcher/plan/options.h"

namespace distrun {

struct WorkerPlan {
  Rank rank;
  LocalRank local_rank;
  std::vector<std::string> arguments;  // From argv[0] on.
};

struct LaunchPlan {
  LaunchOptions options;
  std::string executable;
  Environment environment;          // The launcher's own, which workers inherit.
  std::vector<WorkerPlan> workers;  // By local rank.
  // Of all nodes; ROLE_RANK of the first worker, and how many have its role.
  int world_size = 0;
  int role_rank_base = 0, role_world_size = 0;
};

// In the arguments, `${local_rank}` becomes the worker's local rank, as under torchrun.
// Fails with kInvalidArgument where the number of workers is not positive, and where one of them
// would have no device under --virtual-local-rank.
Result<LaunchPlan> make_plan(const LaunchOptions& options, const Command& command,
                             const Environment& environment);

// The ranks of one node's workers: RANK and ROLE_RANK of the first, and of how many.
struct NodeRanks {
  int rank_base = 0, world_size = 1;
  int role_rank_base = 0, role_world_size = 1;
};

// With several nodes, the ranks of this one's workers are known only after all nodes have joined.
void place_ranks(LaunchPlan& plan, const NodeRanks& ranks);

}  // namespace distrun
