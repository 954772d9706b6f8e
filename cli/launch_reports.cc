#include "cli/launch_reports.h"

#include <chrono>
#include <utility>
#include <variant>

#include "launcher/report/event_json.h"
#include "launcher/report/event_line.h"

namespace distrun {

using std::chrono::system_clock;

LaunchReports::LaunchReports(const LaunchPlan& plan, const std::string& host)
    : plan_(plan),
      host_(host),
      record_(plan, host),
      trace_(plan, host, [this](std::string_view events) { trace_file_->add(events); }),
      metrics_(plan, host) {}

Result<std::unique_ptr<LaunchReports>> LaunchReports::open(const LaunchFlags& flags,
                                                           const LaunchPlan& plan,
                                                           const std::string& host) {
  std::unique_ptr<LaunchReports> reports(new LaunchReports(plan, host));
  if (!flags.events.empty()) {
    auto file = LineFile::append("--events", flags.events);
    if (!file) return file.error();
    reports->events_.emplace(std::move(*file));
  }
  if (!flags.html.empty()) {
    auto file = ResultFile::open(flags.html);
    if (!file) return file.error().with_context("--html");
    reports->page_.emplace(std::move(*file));
  }
  if (!flags.trace.empty()) {
    auto file = TraceFile::open(flags.trace);
    if (!file) return file.error();
    reports->trace_file_.emplace(std::move(*file));
  }
  if (!flags.compare_digests.empty()) {
    // With several nodes, the number of ranks is not known yet.
    auto read = read_digests(flags.compare_digests, plan.options.nnodes == 1 ? plan.world_size : 0);
    if (!read) return read.error();
    reports->recorded_.emplace(std::move(*read));
  }
  if (!flags.save_digests.empty()) {
    auto file = DigestFile::open(flags.save_digests);
    if (!file) return file.error();
    reports->digests_.emplace(std::move(*file));
  }
  return reports;
}

void LaunchReports::listen(LaunchContext& context) {
  context.on_event = [this](const RunEvent& event) { return happened(event); };
  context.metrics = [this](const RunSnapshot& now) { return metrics_.text(now); };
  if (page_ || trace_file_) {
    context.on_load = [this](const std::vector<WorkerLoad>& loads) { loaded(loads); };
  }
  if (page_) context.on_output = [this](const WorkerText& output) { record_.wrote(output); };
  if (recorded_) context.recorded = &*recorded_;
  if (digests_) {
    context.on_collective = [this](const CollectiveOfRanks& all) { digests_->add(all); };
  }
  if (!trace_file_) return;
  context.on_operation = [this](LocalRank worker, const Operation& operation) {
    trace_.operated(worker, operation);
  };
  context.on_missed = [this](LocalRank worker, std::uint64_t missed) {
    trace_.missed(worker, missed, system_clock::now());
  };
}

std::string LaunchReports::happened(const RunEvent& event) {
  const auto now = system_clock::now();
  if (events_) events_->write(event_json(event, plan_, host_, now));
  if (page_) record_.happened(event, now);
  if (trace_file_) {
    if (std::holds_alternative<RunStarted>(event)) trace_file_->begin(trace_.head(now));
    trace_.happened(event, now);
    trace_file_->flush();
  }
  if (digests_) digests_->happened(event, plan_.world_size);
  metrics_.happened(event, now);
  return event_line(plan_, event);
}

void LaunchReports::loaded(const std::vector<WorkerLoad>& loads) {
  const auto now = system_clock::now();
  if (page_) record_.loaded(loads, now);
  if (!trace_file_) return;
  trace_.loaded(loads, now);
  trace_file_->flush();
}

std::vector<std::string> LaunchReports::finish(const std::string& summary) {
  std::vector<std::string> problems;
  if (page_) {
    const auto written = page_->write(record_.html(summary));
    if (!written) problems.push_back("--html: " + written.error().message);
  }
  if (const auto lost = events_ ? events_->finish() : std::nullopt) {
    problems.push_back(lost->message);
  }
  if (const auto lost = trace_file_ ? trace_file_->finish() : std::nullopt) {
    problems.push_back(lost->message);
  }
  if (const auto lost = digests_ ? digests_->finish() : std::nullopt) {
    problems.push_back(lost->message);
  }
  return problems;
}

}  // namespace distrun
