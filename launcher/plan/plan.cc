#include "launcher/plan/plan.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/shell_quote.h"
#include "launcher/plan/worker_environment.h"

namespace distrun {

namespace {

std::string with_local_rank(std::string text, LocalRank local_rank) {
  constexpr std::string_view kMacro = "${local_rank}";
  const std::string value = std::to_string(local_rank.value());
  for (std::size_t at = text.find(kMacro); at != std::string::npos;
       at = text.find(kMacro, at + value.size())) {
    text.replace(at, kMacro.size(), value);
  }
  return text;
}

}  // namespace

Result<LaunchPlan> make_plan(const LaunchOptions& options, const Command& command,
                             const Environment& environment) {
  if (options.nproc_per_node < 1) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("--nproc-per-node {}: must be at least 1", options.nproc_per_node)};
  }
  LaunchPlan plan{options, command.executable, environment, {}};
  if (options.virtual_local_rank) {
    const auto last = device_of(plan, LocalRank(options.nproc_per_node - 1));
    if (!last) return last.error();
  }
  for (int index = 0; index < options.nproc_per_node; ++index) {
    WorkerPlan worker{Rank(index), LocalRank(index), command.arguments};
    for (std::string& argument : worker.arguments) {
      argument = with_local_rank(std::move(argument), local_place(plan, worker.local_rank).rank);
    }
    plan.workers.push_back(std::move(worker));
  }
  place_ranks(plan,
              {.world_size = options.nproc_per_node, .role_world_size = options.nproc_per_node});
  return plan;
}

Result<void> bind_workers(LaunchPlan& plan, const std::string& root) {
  if (!plan.options.numa_binding) return {};
  const NumaBinding binding = *plan.options.numa_binding;
  const auto cpus = [&]() -> Result<std::vector<CpuSet>> {
    const auto machine = read_numa_machine(group_of(binding), usable_cpus(), root);
    if (!machine) return machine.error();
    const int workers = static_cast<int>(plan.workers.size());
    const int all = plan.options.task ? plan.options.task->local_ranks : workers;
    return cpus_near_gpus(binding, all, *machine, plan.environment.get("CUDA_VISIBLE_DEVICES"));
  }();
  if (!cpus) return cpus.error().with_context("--numa-binding");
  for (WorkerPlan& worker : plan.workers) {
    const LocalRank at = local_place(plan, worker.local_rank).rank;
    worker.cpus = (*cpus)[static_cast<std::size_t>(at.value())];
  }
  return {};
}

LocalPlace local_place(const LaunchPlan& plan, LocalRank worker) {
  const LaunchOptions& options = plan.options;
  if (const auto& task = options.task) {
    return {LocalRank(task->local_rank), task->local_ranks, task->node, task->nodes};
  }
  return {worker, static_cast<int>(plan.workers.size()), options.node_rank, options.nnodes};
}

std::string command_line(const WorkerPlan& worker) {
  std::vector<std::string> words;
  for (const auto& argument : worker.arguments) words.push_back(shell_quoted(argument));
  return fmt::format("{}", fmt::join(words, " "));
}

void place_ranks(LaunchPlan& plan, const NodeRanks& ranks) {
  plan.world_size = ranks.world_size;
  plan.role_rank_base = ranks.role_rank_base;
  plan.role_world_size = ranks.role_world_size;
  for (WorkerPlan& worker : plan.workers) {
    worker.rank = Rank(ranks.rank_base + worker.local_rank.value());
  }
}

}  // namespace distrun
