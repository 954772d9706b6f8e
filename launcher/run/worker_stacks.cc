#include "launcher/run/worker_stacks.h"

#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "evidence/connections/rank_sockets.h"

namespace distrun {

namespace {

std::string current_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

}  // namespace

Whereabouts WorkerStacks::read(const std::vector<WorkerPool::Processes>& workers,
                               const std::unordered_map<pid_t, std::string>& waits,
                               std::chrono::milliseconds time_limit,
                               std::optional<std::uint16_t> ras_port) {
  std::vector<std::vector<pid_t>> pids;
  std::vector<std::pair<int, pid_t>> of_ranks;
  for (const auto& worker : workers) {
    pids.push_back(worker.pids);
    for (const pid_t pid : worker.pids) of_ranks.emplace_back(worker.rank.value(), pid);
  }
  // Before the stacks, which may take seconds.
  const auto sockets = read_rank_sockets(of_ranks, ras_port);
  auto stacks = collector_.collect_groups(pids, time_limit);
  std::vector<RankStacks> ranks;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    RankStacks& rank = ranks.emplace_back();
    rank.rank = workers[i].rank.value();
    rank.processes = std::move(stacks[i]);
    for (const pid_t pid : workers[i].pids) {
      const auto wait = waits.find(pid);
      if (wait != waits.end() && rank.awaited.empty()) rank.awaited = wait->second;
    }
  }
  Whereabouts where = where_ranks_are(ranks, current_folder());
  if (where.line.empty()) where.line = "unknown";
  where.stacks += connections_text(connection_lines(sockets), "  ");
  return where;
}

}  // namespace distrun
