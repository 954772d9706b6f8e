#include "evidence/report/where_ranks_are.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "common/text/rank_list.h"
#include "evidence/report/readable_stack.h"
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

bool is_held(const ProcessStacks& process) { return *state_text(process.state) != '\0'; }

class Report {
 public:
  Report(const std::vector<RankStacks>& ranks, const std::string& folder)
      : folder_(folder.empty() ? "" : folder + '/') {
    for (const RankStacks& rank : ranks) {
      const std::size_t worker = waits_for_another(rank.processes) ? 1 : 0;
      for (std::size_t i = worker; i < rank.processes.size(); ++i) {
        take(rank.rank, rank.processes[i], i == worker);
      }
    }
  }

  std::string stacks() const {
    std::string text = main_.text("  ");
    for (const auto& [name, tree] : started_) {
      text += fmt::format("  {}, started by {}\n", name, list_of_ranks(tree.ranks())) +
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
    return text.empty() ? apart(main_.branches()) : text;
  }

 private:
  // A shell, or another wrapper, that started the rank's program.
  static bool waits_for_another(const std::vector<ProcessStacks>& processes) {
    if (processes.size() != 2 || processes.front().threads.size() != 1) return false;
    const auto& frames = processes.front().threads.front().frames;
    return !frames.empty() && frames.back().function.find("wait") != std::string::npos;
  }

  void take(int rank, const ProcessStacks& process, bool is_worker) {
    if (is_worker && is_held(process)) held_[state_text(process.state)].push_back(rank);
    if (!process.problem.empty() && is_worker) note(process.problem, rank);
    for (const ThreadStack& thread : process.threads) {
      const bool is_main = thread.tid == process.pid;
      if (thread.frames.empty()) {
        if (is_main && is_worker) note(thread.problem, rank);
        continue;
      }
      if (is_main && is_worker) {
        main_.add(rank, shown(thread.frames));
      } else if (is_main) {
        started_[process.name].add(rank, shown(thread.frames));
      } else if (!is_idle(thread.frames)) {
        threads_.add(rank, shown(thread.frames));
      }
    }
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

  static std::string apart(const std::vector<StackTree::Branch>& branches) {
    constexpr std::size_t kShown = 4;
    std::string text;
    for (std::size_t i = 0; i < branches.size() && i < kShown; ++i) {
      const auto& [ranks, frames] = branches[i];
      if (!text.empty()) text += "; ";
      text += list_of_ranks(ranks) + " in " + described(telling(frames));
    }
    if (branches.size() > kShown) text += fmt::format("; {} more groups", branches.size() - kShown);
    return text;
  }

  const std::string folder_;  // With a slash at its end.
  StackTree main_, threads_;
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
