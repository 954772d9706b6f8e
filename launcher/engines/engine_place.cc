#include "launcher/engines/engine_place.h"

#include <utility>

#include <fmt/format.h>

#include "common/text/parse_number.h"
#include "launcher/engines/fact_reader.h"

namespace distrun {

namespace {

// "Slurm started 8 tasks on 2 nodes"
std::string started(const EngineFacts& facts) {
  if (!facts.tasks.value) return facts.engine + " started this pod";
  std::string text = fmt::format("{} started {} tasks", facts.engine, *facts.tasks.value);
  if (facts.nodes.value) {
    const int nodes = *facts.nodes.value;
    text += fmt::format(" on {} node{}", nodes, nodes == 1 ? "" : "s");
  }
  return text;
}

// Whether each task is a rank. Without the other nodes' counts, this node's decides.
bool is_rank_per_task(const EngineFacts& facts) {
  if (facts.most_tasks.value) return *facts.most_tasks.value > 1;
  return facts.local_tasks.value.value_or(1) > 1;
}

// How many tasks there are. nullopt if neither the engine nor the user says it.
std::optional<int> count_of(const EngineFacts& facts, const GivenPlace& given) {
  if (facts.tasks.value) return facts.tasks.value;
  const auto nodes = parse_number<int>(given.nodes ? given.nodes->value : "", 1, kTasksMax);
  return nodes ? std::optional<int>(*nodes) : std::nullopt;
}

// Why the run is on this node only, although the user does not say so. Empty: it is not.
std::string reason_to_be_alone(const EngineFacts& facts, std::optional<int> tasks) {
  if (tasks == 1) return facts.engine + " started one task";
  if (tasks) return "";
  return facts.engine +
         " does not say how many pods there are; to run on N of them, give --nnodes N";
}

// --nnodes counts nodes. Where each task is a rank, the engine has to know them.
std::optional<std::string> contradiction(const EngineFacts& facts, const GivenPlace& given,
                                         bool is_rank) {
  if (given.nodes && *facts.task.value >= count_of(facts, given)) {
    return fmt::format("{} {}, but {} is {}: give the number of pods as {}", given.nodes->said,
                       given.nodes->value, facts.task.source, *facts.task.value, given.nodes->said);
  }
  const EngineFact<int>& nodes = is_rank ? facts.nodes : facts.tasks;
  if (given.nodes && nodes.value && given.nodes->value != std::to_string(*nodes.value)) {
    return fmt::format("{0} {1}, but {2}: remove {0}", given.nodes->said, given.nodes->value,
                       started(facts));
  }
  if (is_rank && given.workers && given.workers->value != "1") {
    const bool is_slurm = facts.engine == "Slurm";
    return fmt::format(
        "{0} {1}, but {2}, {3} of them on this node: start one task on each node{4}, or remove {0} "
        "to run one worker per task",
        given.workers->said, given.workers->value, started(facts),
        facts.local_tasks.value.value_or(1), is_slurm ? " (srun --ntasks-per-node=1)" : "");
  }
  return std::nullopt;
}

// What starts one task on each node.
std::string one_task_command(const std::string& engine) {
  if (engine == "Slurm") return "srun --ntasks-per-node=1";
  if (engine == "Open MPI") return "mpirun --map-by ppr:1:node";
  if (engine == "MPICH") return "mpiexec -ppn 1";
  return "jsrun --rs_per_host 1 --tasks_per_rs 1";
}

bool is_on_several_nodes(const EngineFacts& facts, int tasks) {
  if (facts.nodes.value) return *facts.nodes.value > 1;
  return facts.local_tasks.value.value_or(1) < tasks;
}

}  // namespace

std::string reason_to_ignore_engine(const GivenPlace& given) {
  if (given.is_alone) return "--standalone is given";
  if (given.nodes && given.nodes->value == "1") return given.nodes->said + " is 1";
  if (given.node) return given.node->said + " is given";
  return "";
}

bool tells_error(const EngineFacts& facts) {
  if (facts.aborts || facts.has_own_host) return true;
  return facts.most_tasks.value ? *facts.task.value == 0 : *facts.local_task.value == 0;
}

Result<EnginePlace> place_of(const EngineFacts& facts, const GivenPlace& given) {
  EnginePlace place;
  place.reason = reason_to_ignore_engine(given);
  const auto tasks = count_of(facts, given);
  if (place.reason.empty()) place.reason = reason_to_be_alone(facts, tasks);
  if (!place.reason.empty()) return place;
  const bool is_rank = is_rank_per_task(facts);
  if (is_rank && given.tasks_of_node == TasksOfNode::kOne) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{}, {} of them on this node, but tests need one task on each node: "
                             "start one ({}), or give --nnodes 1 to run all tests in each task",
                             started(facts), facts.local_tasks.value.value_or(1),
                             one_task_command(facts.engine))};
  }
  if (const auto error = contradiction(facts, given, is_rank)) {
    return Error{ErrorKind::kInvalidArgument, *error};
  }
  if (given.loopback && is_on_several_nodes(facts, *tasks)) {
    const bool says_nodes = facts.nodes.value || facts.has_own_host;
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{0} {1} is a loopback address, but {2}{3}: give an address of "
                             "task 0 that the other nodes can reach{4}",
                             given.loopback->said, given.loopback->value, started(facts),
                             says_nodes ? "" : ", and not all of them on this node",
                             facts.address.value ? ", or remove " + given.loopback->said : "")};
  }
  if (!given.has_address && !facts.address.value) {
    return Error{ErrorKind::kInvalidArgument,
                 facts.has_own_host
                     ? fmt::format("{} without a subdomain, so the address of node 0 is unknown: "
                                   "set the subdomain to a headless service, or give --master-addr "
                                   "HOST",
                                   started(facts))
                     : fmt::format("{}, and does not say where task 0 runs: give --master-addr "
                                   "HOST",
                                   started(facts))};
  }
  if (!given.has_port && !facts.has_own_host && facts.id.empty()) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("{}, and gives this run no name: give --master-port PORT, which no "
                             "other run uses",
                             started(facts))};
  }
  place.mode = is_rank ? EngineMode::kRank : EngineMode::kAgent;
  place.nodes = *tasks;
  place.node = *facts.task.value;
  if (facts.tasks.value) {
    place.flags.push_back({"nnodes", std::to_string(*tasks), facts.tasks.source});
  }
  place.flags.push_back({"node-rank", std::to_string(*facts.task.value), facts.task.source});
  if (!given.has_address) {
    place.flags.push_back({"master-addr", *facts.address.value, facts.address.source});
  }
  if (!given.has_port && !facts.has_own_host) {
    place.flags.push_back({"master-port", std::to_string(port_of(facts)), facts.id});
  }
  if (!given.has_id && !facts.id.empty())
    place.flags.push_back({"rdzv-id", facts.id, facts.engine});
  if (is_rank) {
    place.task = TaskPlace{.local_rank = *facts.local_task.value,
                           .local_ranks = facts.local_tasks.value.value_or(1),
                           .node = facts.node.value,
                           .nodes = facts.nodes.value};
  }
  return place;
}

}  // namespace distrun
