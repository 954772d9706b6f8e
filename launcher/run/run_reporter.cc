#include "launcher/run/run_reporter.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "evidence/report/named_backtrace.h"
#include "launcher/outcome/worker_error.h"
#include "launcher/report/rank_map.h"
#include "launcher/report/summary.h"

namespace distrun {

RunReporter::RunReporter(const LaunchPlan& plan, const LaunchContext& context, RunOutput& output)
    : plan_(plan), context_(context), output_(output) {
  report_.workers.resize(plan.workers.size());
}

void RunReporter::tell(const RunEvent& event) {
  if (const auto* found = std::get_if<StragglerFound>(&event)) {
    report_.stragglers.push_back(found->straggler);
  }
  if (context_.on_event) output_.say(context_.on_event(event));
}

void RunReporter::attempt_started(int attempt) {
  report_.workers.assign(plan_.workers.size(), {});
  recorded_ = report_.collectives = report_.nccl = report_.where = "";
  report_.stragglers.clear();
  tell(AttemptStarted{attempt});
}

void RunReporter::worker_started(const WorkerStarted& event) {
  at(event.worker).pid = event.pid;
  tell(event);
}

void RunReporter::worker_ended(const WorkerEnded& event, const RunPlace& place) {
  WorkerReport& report = at(event.worker);
  report.run_time = event.run_time;
  tell(event);
  if (succeeded(event.end)) return;
  const auto index = static_cast<std::size_t>(event.worker.value());
  WorkerError error = read_worker_error(error_file(plan_, place, plan_.workers[index]));
  report.error = std::move(error.text);
  report.callstack = with_names(error.callstack);
}

void RunReporter::still_running(int attempt, const TellStillRunning& still) {
  WorkersStillRunning event{
      .attempt = attempt, .until_kill = still.until_kill, .signal = still.signal};
  for (const LocalRank worker : still.workers) event.workers.push_back({worker, at(worker).pid});
  tell(event);
}

void RunReporter::stops_at(const StacksRead& event) {
  recorded_ = event.recorded;
  report_.collectives = event.collectives();
  report_.nccl = event.nccl;
  report_.where = event.where.line;
  tell(event);
}

void RunReporter::nodes_compared(int attempt, std::string on_gpus) {
  StacksRead event{.attempt = attempt, .where = {}, .recorded = recorded_};
  event.on_gpus = std::move(on_gpus);
  report_.collectives = event.collectives();
  event.recorded.clear();  // It was reported before.
  tell(event);
}

void RunReporter::ranks_disagreed(const std::string& text) {
  if (report_.collectives.empty()) report_.collectives = text;
}

void RunReporter::leaked_processes_killed(int attempt, KilledProcesses leaked) {
  // The output of all workers has ended.
  for (const WorkerPlan& worker : plan_.workers) {
    if (!context_.on_output) break;
    context_.on_output({attempt, worker.local_rank, output_.captured(worker.local_rank)});
  }
  report_.leaked_processes = std::move(leaked);
  const auto& killed = report_.leaked_processes.killed;
  if (!killed.empty()) tell(LeakedProcessesKilled{attempt, killed});
}

NodesVerdict RunReporter::verdict_so_far(const RunEnd& run_end) {
  if (run_end.culprit) {
    output_.take(*run_end.culprit);
    take_output(*run_end.culprit);
  }
  look_for_memory(run_end);
  RunReport so_far = report_;
  so_far.run_end = run_end;
  return verdict_of(plan_, so_far, context_.host);
}

void RunReporter::begin_finish(const RunEnd& run_end, const RunPlace& place) {
  report_.run_end = run_end;
  look_for_memory(run_end);
  if (run_end.cause == RunEnd::Cause::kWorkerFailed) {
    const auto culprit = static_cast<std::size_t>(run_end.culprit->value());
    const auto copied = hand_on_worker_error(error_file(plan_, place, plan_.workers[culprit]),
                                             *run_end.workers[culprit].end, plan_.environment);
    if (!copied) report_.error_not_copied = copied.error().message;
  }
  for (const WorkerPlan& worker : plan_.workers) take_output(worker.local_rank);
}

void RunReporter::finish(std::vector<std::string> refusals) {
  report_.refusals = std::move(refusals);
  tell(RunEnded{report_.run_end});
  if (context_.summary) output_.say(context_.summary(report_));
}

std::string RunReporter::about() const {
  const std::size_t count = plan_.workers.size();
  return fmt::format("{} worker{}: {}", count, count == 1 ? "" : "s",
                     command_line(plan_.workers.front()));
}

void RunReporter::print_map_of_one_node() {
  print_map({{.node = 0,
              .host = context_.host,
              .role = plan_.options.role,
              .first = 0,
              .count = static_cast<int>(plan_.workers.size())}});
}

void RunReporter::print_map(const std::vector<RanksOfNode>& nodes) {
  if (plan_.options.display_map) output_.say(rank_map(nodes));
}

void RunReporter::print_workers(int attempt, const std::vector<WorkerRow>& rows) {
  output_.say(fmt::format("distrun: the workers of attempt {}:\n", attempt) + worker_table(rows));
}

void RunReporter::mark_stragglers(std::vector<WorkerRow>& rows) const {
  for (WorkerRow& row : rows) {
    row.is_straggler =
        std::any_of(report_.stragglers.begin(), report_.stragglers.end(),
                    [&](const Straggler& straggler) { return straggler.rank == row.rank.value(); });
  }
}

// A crashing worker can only write addresses and mangled names.
std::string RunReporter::with_names(const std::string& backtrace) {
  const auto cut = [](const Frame& frame) {
    if (frame.function == "main") return CutFrames::kAfterThis;
    const bool starts = frame.function == "_start" || frame.function.starts_with("__libc_start");
    return starts ? CutFrames::kFromHere : CutFrames::kNo;
  };
  const auto name = [this](const std::string& file, std::uint64_t address) {
    return names_.frame_at(file, address);
  };
  std::string text = named_backtrace(backtrace, name, cut);
  names_.close_files();
  return text;
}

void RunReporter::take_output(LocalRank worker) {
  at(worker).last_output = output_.last_output(worker);
  // The output has the backtrace too.
  if (!at(worker).callstack.empty()) {
    at(worker).last_output = with_names(at(worker).last_output);
  }
  at(worker).log_folder = output_.log_folder(worker);
}

void RunReporter::look_for_memory(const RunEnd& run_end) {
  for (const WorkerOutcome& worker : run_end.workers) {
    if (worker.end != ProcessEnd(KilledBy{SIGKILL})) continue;
    report_.out_of_memory = oom_evidence(oom_kills_, OomKills::read());
    break;
  }
}

}  // namespace distrun
