#include "evidence/report/where_ranks_are.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/text/printable.h"
#include "common/text/rank_list.h"
#include "evidence/report/rank_places.h"
#include "evidence/report/readable_stack.h"
#include "evidence/report/stack_place.h"
#include "evidence/report/stack_tree.h"

namespace distrun {

namespace {

const char* state_text(char state) {
  switch (state) {
    case 'T':
      return "stopped (SIGSTOP)";
    case 't':
      return "stopped by a debugger";
    case 'D':
      return "waiting in the kernel (D)";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "";
  }
}

// A process that waits in the kernel briefly, as after vfork(), still has a stack.
bool is_held(const ProcessStacks& process) {
  if (*state_text(process.state) == '\0') return false;
  if (process.state == 'T' || process.state == 't') return true;
  return process.threads.empty() || process.threads.front().frames.empty();
}

bool is_shell(std::string_view name) {
  for (const std::string_view shell : {"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"}) {
    if (name == shell) return true;
  }
  return false;
}

class Report {
 public:
  Report(const std::vector<RankStacks>& ranks, const std::string& folder)
      : folder_(folder.empty() ? "" : folder + '/') {
    for (const RankStacks& rank : ranks) {
      const std::size_t worker = waits_for_another(rank.processes) ? 1 : 0;
      for (std::size_t i = worker; i < rank.processes.size(); ++i) {
        take(rank, rank.processes[i], i == worker);
      }
    }
  }

  std::string stacks() const {
    std::string text = main_.text("  ");
    for (const auto& [name, tree] : started_) {
      text +=
          fmt::format("  {}, started by {}\n", printable(name, 100), list_of_ranks(tree.ranks())) +
          tree.text("    ");
    }
    if (!threads_.empty())
      text += fmt::format("  other threads of {}\n", list_of_ranks(threads_.ranks())) +
              threads_.text("    ");
    for (const auto& [problem, ranks] : problems_) {
      text += fmt::format("  {}: no stack: {}\n", list_of_ranks(ranks), problem);
    }
    return text;
  }

  std::string line() const {
    std::string text;
    for (const auto& [state, ranks] : held_) {
      if (!text.empty()) text += "; ";
      text += fmt::format("{} {}", list_of_ranks(ranks), state);
    }
    const std::string others = running_.line();
    if (!text.empty() && !others.empty()) text += "; ";
    return text + others;
  }

 private:
  // A shell that waits for the rank's program.
  static bool waits_for_another(const std::vector<ProcessStacks>& processes) {
    if (processes.size() != 2 || !is_shell(processes.front().name)) return false;
    const auto& threads = processes.back().threads;
    return !threads.empty() && !threads.front().frames.empty();
  }

  void take(const RankStacks& rank, const ProcessStacks& process, bool is_worker) {
    if (is_worker && is_held(process)) held_[state_text(process.state)].push_back(rank.rank);
    if (!process.problem.empty() && is_worker) note(process.problem, rank.rank);
    for (const ThreadStack& thread : process.threads) {
      const bool is_main = thread.tid == process.pid;
      if (thread.frames.empty()) {
        if (is_main && is_worker) note(thread.problem, rank.rank);
        continue;
      }
      if (is_main && is_worker) {
        if (!is_held(process)) running_.add(rank.rank, telling_frames(process), rank.awaited);
        main_.add(rank.rank, shown(thread.frames));
      } else if (is_main) {
        started_[process.name].add(rank.rank, shown(thread.frames));
      } else if (!is_idle(thread.frames)) {
        threads_.add(rank.rank, shown(thread.frames));
      }
    }
  }

  // Of the main thread or, if it only waits for another thread, of that thread. Which thread it
  // waits for is unknown if several run the user's code, and none of them waits for ranks.
  std::vector<Frame> telling_frames(const ProcessStacks& process) const {
    std::vector<Frame> main = shown(process.threads.front().frames);
    if (!waits_for_thread(process.threads.front().frames)) return main;
    std::vector<Frame> found;
    bool is_clear = true;
    for (const ThreadStack& thread : process.threads) {
      if (thread.frames.empty() || waits_for_thread(thread.frames)) continue;
      std::vector<Frame> frames = shown(thread.frames);
      // Libraries have threads too.
      if (frames.front().module != main.front().module || is_idle(thread.frames)) continue;
      const StackPlace place = place_of(frames);
      if (place.path.empty()) continue;
      if (place.waits == StackPlace::Waits::kForRanks) return frames;
      if (!found.empty()) is_clear = false;
      found = std::move(frames);
    }
    return found.empty() || !is_clear ? main : found;
  }

  std::vector<Frame> shown(const std::vector<Frame>& frames) const {
    std::vector<Frame> found = readable(frames);
    for (Frame& frame : found) {
      if (!folder_.empty() && frame.source.starts_with(folder_)) {
        frame.source.erase(0, folder_.size());
      }
    }
    return found;
  }

  void note(const std::string& problem, int rank) {
    auto& ranks = problems_[problem];
    if (ranks.empty() || ranks.back() != rank) ranks.push_back(rank);
  }

  const std::string folder_;  // Ends with a slash.
  StackTree main_, threads_;
  RankPlaces running_;  // Ranks that are not held.
  std::map<std::string, StackTree> started_;
  std::map<std::string_view, std::vector<int>> held_;
  std::map<std::string, std::vector<int>> problems_;
};

}  // namespace

Whereabouts where_ranks_are(const std::vector<RankStacks>& ranks, const std::string& folder) {
  const Report report(ranks, folder);
  return {.line = report.line(), .stacks = report.stacks()};
}

}  // namespace distrun
