#include "launcher/plan.h"

#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "launcher/worker_environment.h"

namespace distrun {

namespace {

// As Python's string.Template.safe_substitute(), which torchrun uses: "$local_rank" and
// "${local_rank}" are replaced, "$$" is a "$", everything else stays.
std::string with_local_rank(const std::string& text, LocalRank local_rank) {
  constexpr std::string_view kName = "local_rank", kBraced = "{local_rank}";
  const std::string value = std::to_string(local_rank.value());
  const auto goes_on = [](std::string_view rest) {
    return !rest.empty() &&
           (std::isalnum(static_cast<unsigned char>(rest[0])) != 0 || rest[0] == '_');
  };
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at + 1);
    if (text[at] != '$') {
      result += text[at++];
    } else if (rest.starts_with('$')) {
      result += '$';
      at += 2;
    } else if (rest.starts_with(kBraced)) {
      result += value;
      at += 1 + kBraced.size();
    } else if (rest.starts_with(kName) && !goes_on(rest.substr(kName.size()))) {
      result += value;
      at += 1 + kName.size();
    } else {
      result += text[at++];
    }
  }
  return result;
}

}  // namespace

Result<LaunchPlan> make_plan(const LaunchOptions& options, const Command& command,
                             const Environment& environment) {
  if (options.nproc_per_node < 1) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("--nproc-per-node {}: at least one worker is needed", options.nproc_per_node)};
  }
  if (options.virtual_local_rank) {
    const auto last = device_of(LocalRank(options.nproc_per_node - 1), environment);
    if (!last) return last.error();
  }
  LaunchPlan plan{options, command.executable, environment, {}};
  for (int index = 0; index < options.nproc_per_node; ++index) {
    WorkerPlan worker{Rank(index), LocalRank(index), command.arguments};
    for (std::string& argument : worker.arguments) {
      argument = with_local_rank(argument, worker.local_rank);
    }
    plan.workers.push_back(std::move(worker));
  }
  place_ranks(plan,
              {.world_size = options.nproc_per_node, .role_world_size = options.nproc_per_node});
  return plan;
}

void place_ranks(LaunchPlan& plan, const StartNode& start) {
  plan.world_size = start.world_size;
  plan.role_rank_base = start.role_rank_base;
  plan.role_world_size = start.role_world_size;
  for (WorkerPlan& worker : plan.workers) {
    worker.rank = Rank(start.rank_base + worker.local_rank.value());
  }
}

}  // namespace distrun
