#include "launcher/report/dry_run.h"

#include <fmt/format.h>

#include "common/text/file_url.h"
#include "common/text/shell_quote.h"
#include "launcher/plan/worker_environment.h"

namespace distrun {

namespace {

constexpr const char* kFreePort = "(a free port)";
constexpr const char* kNodes = "(known when all nodes have joined)";

std::string worker_text(const LaunchPlan& plan, const WorkerPlan& worker, const RunPlace& place) {
  VariableChanges changes = worker_variables(plan, worker, place);
  const bool tcp = plan.options.store.kind == StoreChoice::Kind::kTcp;
  if (tcp && plan.options.master_port == 0) {
    changes["MASTER_PORT"] = kFreePort;
    changes["DISTRUN_STORE"] = fmt::format("{}:{}", plan.options.master_addr, kFreePort);
  }
  if (plan.options.nnodes > 1) {
    for (const char* name : {"RANK", "WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"}) {
      changes[name] = kNodes;
    }
  }
  std::string text = "env";
  for (const auto& [name, value] : changes) {
    if (!value) text += fmt::format(" -u {}", name);
  }
  for (const auto& [name, value] : changes) {
    if (value) text += fmt::format(" \\\n  {}={}", name, shell_quoted(*value));
  }
  text += fmt::format(" \\\n  {}", shell_quoted(plan.executable));
  for (std::size_t i = 1; i < worker.arguments.size(); ++i) {
    text += " " + shell_quoted(worker.arguments[i]);
  }
  return text + "\n";
}

std::string headline(const LaunchPlan& plan, const WorkerPlan& worker) {
  const std::string cpus = worker.cpus.empty() ? "" : ", on CPUs " + cpu_list(worker.cpus);
  if (plan.options.nnodes == 1) {
    return fmt::format("# rank {} of {}{}\n", worker.rank.value(), plan.workers.size(), cpus);
  }
  if (plan.options.task) {
    const LocalPlace local = local_place(plan, worker.local_rank);
    return fmt::format("# rank {} of {}, local rank {} of {}{}\n", plan.options.node_rank,
                       plan.options.nnodes, local.rank.value(), local.ranks, cpus);
  }
  return fmt::format("# local rank {} of {} on node {} of {}{}\n", worker.local_rank.value(),
                     plan.workers.size(), plan.options.node_rank, plan.options.nnodes, cpus);
}

}  // namespace

std::string dry_run_text(const LaunchPlan& plan) {
  RunPlace place{.store_port = plan.options.master_port, .error_folder = "(a new folder)"};
  if (plan.options.store.kind == StoreChoice::Kind::kFile) {
    // parse_store_choice() accepts only paths that fit in a URL.
    if (const auto url = file_url(plan.options.store.path)) place.init_method = *url;
  }
  std::string text;
  for (const WorkerPlan& worker : plan.workers) {
    if (!text.empty()) text += "\n";
    text += headline(plan, worker) + worker_text(plan, worker, place);
  }
  return text;
}

}  // namespace distrun
