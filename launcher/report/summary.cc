#include "launcher/report/summary.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text/printable.h"
#include "common/text/rank_list.h"
#include "launcher/report/worker_account.h"

namespace distrun {

namespace {

std::string list_of_processes(const std::vector<LeakedProcess>& processes) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> parts;
  for (const LeakedProcess& one : processes) {
    if (parts.size() == kShown) {
      parts.push_back(fmt::format("and {} more", processes.size() - kShown));
      break;
    }
    parts.push_back(fmt::format("pid {} ({})", one.pid, printable(one.name, 32)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string leaked_processes_text(const KilledProcesses& leaked_processes) {
  std::string text;
  if (!leaked_processes.killed.empty()) {
    text += fmt::format("distrun: killed leaked processes: {}\n",
                        list_of_processes(leaked_processes.killed));
  }
  if (!leaked_processes.survivors.empty()) {
    text += fmt::format("distrun: survived SIGKILL, stuck in the kernel: {}\n",
                        list_of_processes(leaked_processes.survivors));
  }
  return text;
}

}  // namespace

bool tells_end(const LaunchPlan& plan, const RunEnd& run_end) {
  if (!plan.options.shares_console || run_end.cause == RunEnd::Cause::kNotJoined) return true;
  const bool is_told_by_node_0 = !run_end.verdict || run_end.verdict->is_of_node_0;
  return plan.options.node_rank == (is_told_by_node_0 ? 0 : 1);
}

std::string headline(const LaunchPlan& plan, const RunEnd& run_end) {
  const auto culprit = [&] {
    return plan.workers[static_cast<std::size_t>(run_end.culprit->value())].rank.value();
  };
  if (run_end.verdict) return describe(*run_end.verdict, plan.options.task.has_value());
  switch (run_end.cause) {
    case RunEnd::Cause::kSucceeded:
    case RunEnd::Cause::kOtherNode:  // The verdict has the headline.
      return "";
    case RunEnd::Cause::kNotJoined:
      return run_end.error->message;
    case RunEnd::Cause::kWorkerFailed: {
      const auto index = static_cast<std::size_t>(run_end.culprit->value());
      return fmt::format("rank {} failed: {}", culprit(), describe(*run_end.workers[index].end));
    }
    case RunEnd::Cause::kSpawnFailed:
      return fmt::format("rank {} could not be started: {}", culprit(), run_end.error->message);
    case RunEnd::Cause::kInterrupted:
      return fmt::format("ended by signal {} ({})", signal_name(run_end.signal), run_end.signal);
    case RunEnd::Cause::kTimedOut:
      return fmt::format("timed out after {:g} s (--timeout)",
                         std::chrono::duration<double>(*plan.options.timeout).count());
    case RunEnd::Cause::kHung:
      return no_progress_text(*plan.options.hang_after);
    case RunEnd::Cause::kOutputLost:
      return run_end.error->message;
    case RunEnd::Cause::kGuardLost:
      return "ended because distrun's guard process was killed";
  }
  return "";
}

namespace {

constexpr const char* kCore = ", core dumped";

// Whether the launcher's own signals ended it.
bool in_consequence(const ProcessEnd& end, const WorkerReport& worker) {
  if (!worker.error.empty()) return false;
  return end == ProcessEnd(KilledBy{SIGTERM}) || end == ProcessEnd(KilledBy{SIGKILL}) ||
         end == ProcessEnd(ExitedWith{128 + SIGTERM});
}

class Summary {
 public:
  Summary(const LaunchPlan& plan, const RunReport& report, const std::string& host,
          SummaryPlace place)
      : plan_(plan), report_(report), end_(report.run_end), host_(host), place_(place) {}

  std::string text() const {
    return (tells_end(plan_, end_) ? end() : "") + leaks() +
           leaked_processes_text(report_.leaked_processes);
  }
  std::string account_of_failure() const {
    return end_.cause == RunEnd::Cause::kSucceeded ? "" : end();
  }

  // The headline, and details about the worker that failed first, for other nodes.
  std::string line() const { return headline(plan_, end_) + core(); }
  std::string blame() const { return end_.culprit ? culprit() : ""; }

 private:
  using Ranks = std::vector<int>;

  std::string end() const {
    std::string text;
    const bool failed = end_.cause != RunEnd::Cause::kSucceeded;
    if (failed) text += fmt::format("distrun: {}\n", end_.verdict ? headline(plan_, end_) : line());
    if (!report_.collectives.empty()) {
      text += fmt::format("  collectives: {}\n", report_.collectives);
    }
    if (!report_.nccl.empty()) text += fmt::format("  NCCL: {}\n", report_.nccl);
    text += blame();
    if (!report_.where.empty()) {
      text += fmt::format("  workers at that time: {}\n", report_.where);
    }
    if (end_.cause == RunEnd::Cause::kOtherNode) text += end_.verdict->details;
    if (end_.verdict) text += end_.verdict->notes;
    text += others();
    if (failed) {
      // A set: refused clients retry, so reasons repeat.
      for (const std::string& reason : std::set(report_.refusals.begin(), report_.refusals.end())) {
        text += fmt::format("  the store refused a client: {}\n", reason);
      }
    }
    const bool is_asked = plan_.options.collectives || plan_.options.digest;
    for (const Straggler& straggler : report_.stragglers) {
      if (is_asked) text += fmt::format("{}{}\n", failed ? "  " : "distrun: ", text_of(straggler));
    }
    return text;
  }

  static std::size_t index(LocalRank worker) { return static_cast<std::size_t>(worker.value()); }
  int rank(std::size_t worker) const { return plan_.workers[worker].rank.value(); }

  std::string core() const {
    const bool dumped = end_.culprit && report_.workers[index(*end_.culprit)].core_dumped;
    return dumped ? kCore : "";
  }

  std::string culprit() const {
    const std::size_t culprit = index(*end_.culprit);
    const WorkerPlan& planned = plan_.workers[culprit];
    const WorkerReport& known = report_.workers[culprit];
    std::string text;
    if (known.pid > 0) {
      text += fmt::format("  local rank {} on {}, pid {}, after {:.1f} s",
                          local_place(plan_, planned.local_rank).rank.value(), host_, known.pid,
                          std::chrono::duration<double>(known.run_time).count());
      if (end_.attempt > 0) {
        text += fmt::format(", after {} of {} restarts", end_.attempt, plan_.options.max_restarts);
      }
      text += '\n';
    }
    if (!report_.out_of_memory.empty()) text += fmt::format("  {}\n", report_.out_of_memory);
    text += account(culprit, {}, "  ");
    if (!report_.error_not_copied.empty()) {
      text += fmt::format("  its error file could not be forwarded: {}\n",
                          printable(report_.error_not_copied, 1000));
    }
    return text + fmt::format("  command: {}\n", command_line(planned));
  }

  std::string account(std::size_t worker, AccountBounds bounds, const std::string& indent) const {
    const WorkerReport& known = report_.workers[worker];
    const StreamRoute route = route_of(plan_.options.log, "", plan_.workers[worker].local_rank,
                                       Stream::kErr, end_.attempt);
    bounds.below_output = place_ == SummaryPlace::kBelowOutput && route.piped && route.shown;
    const bool is_above =
        place_ != SummaryPlace::kOtherNode && plan_.workers.size() == 1 && known.log_folder.empty();
    if (is_above) bounds.output_lines = 0;
    return worker_account(known, bounds, indent);
  }

  // Workers that failed later, in the order of their ends.
  std::vector<std::size_t> failures() const {
    std::vector<std::size_t> workers;
    for (const LocalRank worker : end_.failures) {
      if (worker != end_.culprit && end_.workers[index(worker)].end)
        workers.push_back(index(worker));
    }
    return workers;
  }

  std::string others() const {
    std::vector<std::size_t> by_themselves;
    std::map<std::string, Ranks> consequences;
    for (const std::size_t worker : failures()) {
      const ProcessEnd& end = *end_.workers[worker].end;
      if (end_.culprit && !in_consequence(end, report_.workers[worker])) {
        by_themselves.push_back(worker);
      } else {
        consequences[describe(end)].push_back(rank(worker));
      }
    }
    std::string text = also_failed(by_themselves);
    for (auto& [end, ranks] : consequences) {
      std::sort(ranks.begin(), ranks.end());
      text += fmt::format("  distrun then stopped {} ({})\n", list_of_ranks(ranks), end);
    }
    return text;
  }

  std::string also_failed(const std::vector<std::size_t>& workers) const {
    constexpr std::size_t kShown = 4;
    constexpr AccountBounds kBounds{.error_lines = 2, .call_lines = 0, .output_lines = 3};
    std::string text;
    Ranks more;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const std::size_t worker = workers[i];
      if (i >= kShown) {
        more.push_back(rank(worker));
        continue;
      }
      text += fmt::format("  also failed: rank {}: {}{}\n", rank(worker),
                          describe(*end_.workers[worker].end),
                          report_.workers[worker].core_dumped ? kCore : "");
      text += account(worker, kBounds, "    ");
    }
    if (more.empty()) return text;
    std::sort(more.begin(), more.end());
    return text + fmt::format("  and {} more failed: {}\n", more.size(), list_of_ranks(more));
  }

  // Whether a time limit ended the run.
  std::string leaks() const {
    Ranks survivors, leaking;
    for (std::size_t i = 0; i < end_.workers.size(); ++i) {
      if (end_.workers[i].leaked) leaking.push_back(rank(i));
      if (end_.workers[i].started && !end_.workers[i].end) survivors.push_back(rank(i));
    }
    std::string text;
    if (!survivors.empty()) {
      text +=
          fmt::format("  survived SIGKILL, stuck in the kernel: {}\n", list_of_ranks(survivors));
    }
    if (!leaking.empty()) {
      text += fmt::format(
          "distrun: {} leaked a process that kept the output open; the output was cut off\n",
          list_of_ranks(leaking));
    }
    return text;
  }

  const LaunchPlan& plan_;
  const RunReport& report_;
  const RunEnd& end_;
  const std::string& host_;
  const SummaryPlace place_;
};

}  // namespace

std::string failure_summary(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host, SummaryPlace place) {
  return Summary(plan, report, host, place).text();
}

std::string failure_account(const LaunchPlan& plan, const RunReport& report,
                            const std::string& host) {
  return Summary(plan, report, host, SummaryPlace::kOtherNode).account_of_failure();
}

NodesVerdict verdict_of(const LaunchPlan& plan, const RunReport& report, const std::string& host) {
  const Summary summary(plan, report, host, SummaryPlace::kOtherNode);
  // Without a reader, workers get SIGTERM.
  const int signal = report.run_end.signal;
  return {.status = exit_status(report.run_end),
          .node = plan.options.node_rank,
          .host = host,
          .headline = summary.line(),
          .details = summary.blame(),
          .signal = signal == SIGPIPE ? 0 : signal};
}

}  // namespace distrun
