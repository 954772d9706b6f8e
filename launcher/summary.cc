#include "launcher/summary.h"

#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace distrun {

namespace {

// As a shell would take it again.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyz"
                                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-+=./:,@%") == std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

std::string command_line(const WorkerPlan& worker) {
  std::vector<std::string> words;
  for (const auto& argument : worker.arguments) words.push_back(quoted(argument));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string headline(const LaunchPlan& plan, const Verdict& verdict) {
  const auto culprit = [&] {
    return plan.workers[static_cast<std::size_t>(verdict.culprit->value())].rank.value();
  };
  switch (verdict.cause) {
    case Verdict::Cause::kSucceeded:
      return "";
    case Verdict::Cause::kWorkerFailed: {
      const auto index = static_cast<std::size_t>(verdict.culprit->value());
      return fmt::format("rank {} failed: {}", culprit(), describe(*verdict.workers[index].end));
    }
    case Verdict::Cause::kSpawnFailed:
      return fmt::format("rank {} could not be started: {}", culprit(), verdict.error->message);
    case Verdict::Cause::kInterrupted:
      return fmt::format("ended by signal {} ({})", signal_name(verdict.signal), verdict.signal);
    case Verdict::Cause::kTimedOut:
      return fmt::format("not finished after {:g} s (--timeout)",
                         std::chrono::duration<double>(*plan.options.timeout).count());
    case Verdict::Cause::kOutputLost:
      return verdict.error->message;
  }
  return "";
}

std::string list_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

std::string failure_summary(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host) {
  const Verdict& verdict = report.verdict;
  std::string text;
  if (verdict.cause != Verdict::Cause::kSucceeded) {
    text += fmt::format("distrun: {}\n", headline(plan, verdict));
  }
  if (verdict.culprit) {
    const auto index = static_cast<std::size_t>(verdict.culprit->value());
    const WorkerPlan& worker = plan.workers[index];
    const WorkerReport& known = report.workers[index];
    if (known.pid > 0) {
      text +=
          fmt::format("  local rank {} on {}, pid {}, after {:.1f} s\n", worker.local_rank.value(),
                      host, known.pid, std::chrono::duration<double>(known.run_time).count());
    }
    text += fmt::format("  command: {}\n", command_line(worker));
  }

  std::map<std::string, std::vector<int>> others;
  std::vector<int> survivors, leaking;
  for (std::size_t i = 0; i < verdict.workers.size(); ++i) {
    const WorkerOutcome& outcome = verdict.workers[i];
    const int rank = plan.workers[i].rank.value();
    if (outcome.leaked) leaking.push_back(rank);
    if (outcome.started && !outcome.end) survivors.push_back(rank);
    if (plan.workers[i].local_rank == verdict.culprit || !outcome.end) continue;
    if (!succeeded(*outcome.end)) others[describe(*outcome.end)].push_back(rank);
  }
  for (const auto& [end, ranks] : others) {
    text += fmt::format("  ended in consequence: {} ({})\n", list_of_ranks(ranks), end);
  }
  if (!survivors.empty()) {
    text += fmt::format("  still there after SIGKILL, stuck in the kernel: {}\n",
                        list_of_ranks(survivors));
  }
  if (!leaking.empty()) {
    text +=
        fmt::format("distrun: {} left a process behind that held the output open; it was cut off\n",
                    list_of_ranks(leaking));
  }
  return text;
}

}  // namespace distrun
