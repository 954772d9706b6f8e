#include "cli/env_command.h"

#include <algorithm>
#include <memory>
#include <ostream>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/engine_flags.h"
#include "cli/flags.h"
#include "cli/launch_flags.h"
#include "common/text/shell_quote.h"
#include "launcher/outcome/run_end.h"

namespace distrun {

namespace {

constexpr const char* kEnvHelp =
    R"(An engine is LSF (jsrun), Open MPI (mpirun), MPICH (mpiexec), Slurm (srun) or Kubernetes (a Job with
indexes).  It starts tasks, which are processes, and tells each of them its place in environment
variables.  distrun launch reads the place from them.  With one task on each node, distrun launch
starts the workers of its node.  With several tasks on a node, each distrun launch starts one
worker.

Without --explain, the command prints the flags of distrun launch that these variables and the
variables PET_<FLAG> stand for.

Exit status:
  0  success
  2  wrong usage, or the variables contradict each other

Examples:
  srun --nodes 2 --ntasks-per-node 1 distrun env --explain
  mpirun -n 4 distrun env --explain
  PET_NNODES=2 distrun env

Documentation: docs/engines.md, docs/kubernetes.md)";

std::string counted(const char* what, std::optional<int> number, std::optional<int> count) {
  return number && count ? fmt::format("{} {} of {}", what, *number, *count) : "";
}

// "rank 3 of 4, local rank 1 of 2, node 1 of 2"
std::string ranks_of(const EngineFacts& facts) {
  std::string text = counted("rank", facts.task.value, facts.tasks.value);
  for (const std::string& more :
       {counted("local rank", facts.local_task.value, facts.local_tasks.value),
        counted("node", facts.node.value, facts.nodes.value)}) {
    if (!more.empty()) text += ", " + more;
  }
  return text;
}

std::string place_text(const PlacedByEngine& placed) {
  if (!placed.facts && placed.place.reason.empty()) {
    return "this node only: no engine started this process";
  }
  switch (placed.place.mode) {
    case EngineMode::kAlone:
      return fmt::format("this node only: {}", placed.place.reason);
    case EngineMode::kAgent:
      return fmt::format("one task per node: {}",
                         counted("node", placed.place.node, placed.place.nodes));
    case EngineMode::kRank:
      return fmt::format("one rank per task: {}", ranks_of(*placed.facts));
  }
  return "";
}

std::string engine_text(const PlacedByEngine& placed) {
  if (!placed.facts) return "none";
  const EngineFacts& facts = *placed.facts;
  return facts.job.empty() ? facts.engine : fmt::format("{} ({})", facts.engine, facts.job);
}

std::string explanation(const PlacedByEngine& placed, const CommandLine& line) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::size_t width = 0;
  for (const auto& [name, given] : line.flags) {
    rows.emplace_back(fmt::format("--{} {}", name, shell_quoted(given.value)), given.said);
    width = std::max(width, rows.back().first.size());
  }
  std::string text =
      fmt::format("engine  {}\nplace   {}\n", engine_text(placed), place_text(placed));
  for (const auto& [flag, source] : rows) {
    text += fmt::format("{:{}}  {}\n", flag, width, source);
  }
  return text;
}

}  // namespace

EnvCommand::EnvCommand(CLI::App& app) {
  command_ = app.add_subcommand(
      "env", "Print how Slurm, mpirun, Kubernetes or the variables PET_... place distrun launch.");
  command_->formatter(std::make_shared<HelpFormatter>("distrun env [flags]"));
  own_flag(*command_, "explain", explain_,
           "Print the engine, the place of this process, and what gives each flag.");
  add_help_flag(*command_);
  command_->footer(kEnvHelp);
}

int EnvCommand::run(const Environment& environment, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const Error& error) {
    err << "distrun env: " << error.message << '\n';
    return kExitUsage;
  };
  auto line = split_command_line(launch_flags(), {}, environment);
  if (!line) return fail(line.error());
  const auto placed = place_by_engine(*line, environment);
  if (placed.error) return fail(*placed.error);
  if (explain_) {
    out << explanation(placed, *line);
    return 0;
  }
  for (const auto& [name, given] : line->flags) {
    out << fmt::format("--{} {}\n", name, shell_quoted(given.value));
  }
  return 0;
}

}  // namespace distrun
