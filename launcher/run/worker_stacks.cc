#include "launcher/run/worker_stacks.h"

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "evidence/connections/rank_sockets.h"

namespace distrun {

namespace {

// Total for all workers of this node.
constexpr std::chrono::seconds kStacksTimeout{10};

std::string current_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

}  // namespace

Whereabouts WorkerStacks::read(const std::vector<WorkerPool::Processes>& workers,
                               const std::unordered_map<pid_t, std::string>& waits) {
  std::vector<pid_t> pids;
  std::vector<std::pair<int, pid_t>> of_ranks;
  for (const auto& worker : workers) {
    pids.insert(pids.end(), worker.pids.begin(), worker.pids.end());
    for (const pid_t pid : worker.pids) of_ranks.emplace_back(worker.rank.value(), pid);
  }
  // Before the stacks, which may take seconds.
  const auto sockets = read_rank_sockets(of_ranks);
  auto stacks = collector_.collect(pids, kStacksTimeout);
  std::vector<RankStacks> ranks;
  auto next = stacks.begin();
  for (const auto& worker : workers) {
    const auto end = next + static_cast<std::ptrdiff_t>(worker.pids.size());
    RankStacks& rank = ranks.emplace_back();
    rank.rank = worker.rank.value();
    rank.processes.assign(std::make_move_iterator(next), std::make_move_iterator(end));
    next = end;
    for (const pid_t pid : worker.pids) {
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
