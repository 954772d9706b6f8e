// The place of this distrun among those that an engine started: the flags that the user would
// otherwise give, with the variables that they come from.
//
//     const auto place = place_of(facts, given);
//     if (!place) return place.error();           // "Slurm started 8 tasks on 2 nodes, and …"
//     for (const EngineFlag& flag : place->flags) …
//
// With one task on each node, this distrun is the *agent* of its node, and starts
// --nproc-per-node workers. With several tasks on a node, each distrun is one *rank*: it starts one
// worker, and its local rank is that of the task.
//
// Kubernetes does not say how many pods a Job has, and starts independent tasks in the same way.
// There, only --nnodes makes the pods one run.
//
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "distrun/result.h"
#include "launcher/engines/engine_facts.h"

namespace distrun {

// How many tasks the command can have on each node.
enum class TasksOfNode {
  kSeveral,  // Each is one rank, as in distrun launch.
  kOne,      // As in distrun test.
};

// The flags of the user. Empty: not given.
struct GivenPlace {
  struct Flag {
    std::string said;  // "--nnodes", "PET_NNODES"
    std::string value;
  };
  std::optional<Flag> nodes, node, workers;  // --nnodes, --node-rank, --nproc-per-node
  bool has_address = false;                  // --master-addr or --rdzv-endpoint
  bool has_port = false;                     // --master-port or --rdzv-endpoint
  bool has_id = false;                       // --rdzv-id
  std::optional<Flag> loopback;              // The address, if it can only be this machine.
  bool is_alone = false;                     // --standalone
  TasksOfNode tasks_of_node = TasksOfNode::kSeveral;
};

struct EngineFlag {
  std::string name;  // "nnodes"
  std::string value;
  std::string source;  // "SLURM_STEP_NUM_TASKS"
};

// Of a task that is one rank. `nodes` and `node` may be unknown.
struct TaskPlace {
  int local_rank = 0, local_ranks = 1;
  std::optional<int> node, nodes;
};

enum class EngineMode {
  kAlone,  // The run is on this node only, or the user has placed it.
  kAgent,
  kRank,
};

struct EnginePlace {
  EngineMode mode = EngineMode::kAlone;
  std::string reason;       // Of kAlone: "--standalone is given"
  int nodes = 1, node = 0;  // In kAgent.
  std::vector<EngineFlag> flags;
  std::optional<TaskPlace> task;  // In kRank.
};

// Why the engine is not asked: a flag of the user. Empty: it is asked.
std::string reason_to_ignore_engine(const GivenPlace& given);

// Fails with kInvalidArgument if the flags contradict the engine, or it does not say enough.
Result<EnginePlace> place_of(const EngineFacts& facts, const GivenPlace& given);

// Whether this task reports an error of place_of(). One task does, if all tasks have the same facts
// of the run, and otherwise one task on each node. All tasks do if the engine may end that one
// before it has reported, or if each has its own console.
bool tells_error(const EngineFacts& facts);

}  // namespace distrun
