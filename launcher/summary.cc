#include "launcher/summary.h"

#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/printable.h"

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

// "rank 3", "ranks 0-249, 251": `ranks` in ascending order.
std::string list_of_ranks(const std::vector<int>& ranks) {
  std::vector<std::string> parts;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = ++last) {
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    for (std::size_t i = first; i <= last && last - first < 2; ++i) {
      parts.push_back(std::to_string(ranks[i]));
    }
    if (last - first >= 2) parts.push_back(fmt::format("{}-{}", ranks[first], ranks[last]));
  }
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(parts, ", "));
}

std::string list_of_processes(const std::vector<Leftover>& processes) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> parts;
  for (const Leftover& one : processes) {
    if (parts.size() == kShown) {
      parts.push_back(fmt::format("and {} more", processes.size() - kShown));
      break;
    }
    parts.push_back(fmt::format("pid {} ({})", one.pid, printable(one.name, 32)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string leftovers_text(const EndedDescendants& leftovers) {
  std::string text;
  if (!leftovers.ended.empty()) {
    text += fmt::format("distrun: ended what the workers left behind: {}\n",
                        list_of_processes(leftovers.ended));
  }
  if (!leftovers.survivors.empty()) {
    text += fmt::format("distrun: still there after SIGKILL, stuck in the kernel: {}\n",
                        list_of_processes(leftovers.survivors));
  }
  return text;
}

}  // namespace

std::string headline(const LaunchPlan& plan, const RunEnd& run_end) {
  const auto culprit = [&] {
    return plan.workers[static_cast<std::size_t>(run_end.culprit->value())].rank.value();
  };
  switch (run_end.cause) {
    case RunEnd::Cause::kSucceeded:
      return "";
    case RunEnd::Cause::kWorkerFailed: {
      const auto index = static_cast<std::size_t>(run_end.culprit->value());
      return fmt::format("rank {} failed: {}", culprit(), describe(*run_end.workers[index].end));
    }
    case RunEnd::Cause::kSpawnFailed:
      return fmt::format("rank {} could not be started: {}", culprit(), run_end.error->message);
    case RunEnd::Cause::kInterrupted:
      return fmt::format("ended by signal {} ({})", signal_name(run_end.signal), run_end.signal);
    case RunEnd::Cause::kTimedOut:
      return fmt::format("not finished after {:g} s (--timeout)",
                         std::chrono::duration<double>(*plan.options.timeout).count());
    case RunEnd::Cause::kOutputLost:
      return run_end.error->message;
    case RunEnd::Cause::kGuardLost:
      return "ended, because distrun's guard process was killed";
  }
  return "";
}

std::string failure_summary(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host) {
  const RunEnd& run_end = report.run_end;
  std::string text;
  if (run_end.cause != RunEnd::Cause::kSucceeded) {
    text += fmt::format("distrun: {}\n", headline(plan, run_end));
  }
  if (run_end.culprit) {
    const auto index = static_cast<std::size_t>(run_end.culprit->value());
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
  for (std::size_t i = 0; i < run_end.workers.size(); ++i) {
    const WorkerOutcome& outcome = run_end.workers[i];
    const int rank = plan.workers[i].rank.value();
    if (outcome.leaked) leaking.push_back(rank);
    if (outcome.started && !outcome.end) survivors.push_back(rank);
    if (plan.workers[i].local_rank == run_end.culprit || !outcome.end) continue;
    if (!succeeded(*outcome.end)) others[describe(*outcome.end)].push_back(rank);
  }
  for (const auto& [end, ranks] : others) {
    text += fmt::format("  ended in consequence: {} ({})\n", list_of_ranks(ranks), end);
  }
  if (!survivors.empty()) {
    text += fmt::format("  still there after SIGKILL, stuck in the kernel: {}\n",
                        list_of_ranks(survivors));
  }
  if (run_end.cause != RunEnd::Cause::kSucceeded) {
    // Once for each reason: a client that is refused tries again.
    for (const std::string& reason : std::set(report.refusals.begin(), report.refusals.end())) {
      text += fmt::format("  the store refused a client: {}\n", reason);
    }
  }
  if (!leaking.empty()) {
    text +=
        fmt::format("distrun: {} left a process behind that held the output open; it was cut off\n",
                    list_of_ranks(leaking));
  }
  return text + leftovers_text(report.leftovers);
}

}  // namespace distrun
