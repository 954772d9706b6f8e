// Slurm's steps, which srun starts (srun(1), OUTPUT ENVIRONMENT VARIABLES). Batch scripts and
// shells of salloc have variables with the same beginning, but do not run in a step.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "launcher/engines/engine_facts.h"
#include "launcher/engines/fact_reader.h"
#include "launcher/engines/host_list.h"

namespace distrun {

namespace {

constexpr const char* kTaskCounts = "SLURM_STEP_TASKS_PER_NODE";
constexpr const char* kHosts = "SLURM_STEP_NODELIST";
constexpr const char* kNode = "SLURMD_NODENAME";

// How many tasks each node has.
std::vector<int> task_counts(FactReader& read) {
  const auto text = read.text(kTaskCounts);
  if (!text) return {};
  auto counts = expand_task_counts(*text);
  if (counts) return std::move(*counts);
  read.fail(kTaskCounts, counts.error());
  return {};
}

}  // namespace

Result<std::optional<EngineFacts>> slurm_facts(const Environment& environment) {
  FactReader read(environment, "Slurm");
  const auto step = read.text("SLURM_STEP_ID");
  if (!step || !read.text("SLURM_STEP_NUM_TASKS")) return std::optional<EngineFacts>();
  const auto components = read.text("SLURM_HET_SIZE").value_or("1");
  if (components != "1") {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("SLURM_HET_SIZE: {}: heterogeneous jobs are not supported; give "
                             "--nnodes, --node-rank and --master-addr",
                             components)};
  }
  EngineFacts facts{.engine = "Slurm"};
  const std::string job = read.text("SLURM_JOB_ID").value_or("?");
  facts.job = fmt::format("job {}, step {}", job, *step);
  facts.id = fmt::format("slurm-{}.{}", job, *step);
  facts.tasks = read.number("SLURM_STEP_NUM_TASKS", 1);
  facts.task = read.number("SLURM_PROCID", 0);
  facts.local_task = read.number("SLURM_LOCALID", 0);
  facts.nodes = read.number("SLURM_STEP_NUM_NODES", 1);
  facts.node = read.number("SLURM_NODEID", 0);
  const std::vector<int> counts = task_counts(read);
  read.check_index(facts.task, facts.tasks);
  read.check_index(facts.node, facts.nodes);
  if (read.error()) return *read.error();
  if (static_cast<std::size_t>(*facts.node.value) < counts.size()) {
    facts.local_tasks = {counts[static_cast<std::size_t>(*facts.node.value)], kTaskCounts};
    facts.most_tasks = {*std::max_element(counts.begin(), counts.end()), kTaskCounts};
    read.check_index(facts.local_task, facts.local_tasks);
    if (read.error()) return *read.error();
  }
  // With an arbitrary distribution, task 0 may run on any host of the list.
  const bool is_first_host = !read.text("SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary");
  if (const auto list = read.text(kHosts); list && is_first_host) {
    auto hosts = expand_host_list(*list);
    if (!hosts) return hosts.error().with_context(kHosts);
    facts.address = {std::move(hosts->front()), kHosts};
  }
  if (auto name = read.text(kNode)) facts.host = {std::move(*name), kNode};
  return std::optional(std::move(facts));
}

}  // namespace distrun
