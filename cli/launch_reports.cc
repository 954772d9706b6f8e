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
      trace_(plan, host,
             [this](std::string_view events) {
               for (TraceFile& file : traces_) file.add(events);
             }),
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
    reports->traces_.push_back(std::move(*file));
  }
  if (!flags.record.empty()) {
    if (const auto opened = reports->open_recording(flags.record); !opened) return opened.error();
  }
  // Node 0 compares the ranks of all nodes.
  if (plan.options.node_rank > 0) return reports;
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

Result<void> LaunchReports::open_recording(const std::string& path) {
  auto writer = RecordingWriter::open(path);
  if (!writer) return writer.error();
  const auto trace = writer->path_of("trace.json");
  if (!trace) return trace.error().with_context("--record");
  auto file = TraceFile::open(*trace);
  if (!file) return file.error().with_context("--record");
  traces_.push_back(std::move(*file));
  recording_.emplace(std::move(*writer));
  return {};
}

void LaunchReports::listen(LaunchContext& context) {
  context.on_event = [this](const RunEvent& event) { return happened(event); };
  context.metrics = [this](const RunSnapshot& now) { return metrics_.text(now); };
  const bool makes_page = page_ || recording_;
  if (makes_page || !traces_.empty()) {
    context.on_load = [this](const std::vector<WorkerLoad>& loads) { loaded(loads); };
  }
  if (makes_page) context.on_output = [this](const WorkerText& output) { record_.wrote(output); };
  if (recorded_) context.recorded = &*recorded_;
  if (digests_) {
    context.on_collective = [this](const CollectiveOfRanks& all) { digests_->add(all); };
  }
  if (recording_) {
    context.on_printed = [this](Stream stream, std::string_view bytes) {
      recording_->printed(stream == Stream::kOut ? Printed::kStdout : Printed::kStderr, bytes);
    };
  }
  if (traces_.empty()) return;
  context.on_operation = [this](LocalRank worker, const Operation& operation) {
    trace_.operated(worker, operation);
  };
  context.on_missed = [this](LocalRank worker, std::uint64_t missed) {
    trace_.missed(worker, missed, system_clock::now());
  };
}

std::string LaunchReports::happened(const RunEvent& event) {
  const auto now = system_clock::now();
  if (events_ || recording_) {
    const std::string line = event_json(event, plan_, host_, now);
    if (events_) events_->write(line);
    if (recording_) recording_->add("events.jsonl", line + '\n');
  }
  if (page_ || recording_) record_.happened(event, now);
  if (!traces_.empty()) {
    if (std::holds_alternative<RunStarted>(event)) {
      for (TraceFile& file : traces_) file.begin(trace_.head(now));
    }
    trace_.happened(event, now);
    flush_traces();
  }
  if (digests_) digests_->happened(event, plan_.world_size);
  metrics_.happened(event, now);
  return event_line(plan_, event);
}

void LaunchReports::loaded(const std::vector<WorkerLoad>& loads) {
  const auto now = system_clock::now();
  if (page_ || recording_) record_.loaded(loads, now);
  if (traces_.empty()) return;
  trace_.loaded(loads, now);
  flush_traces();
}

void LaunchReports::flush_traces() {
  for (TraceFile& file : traces_) file.flush();
}

std::vector<std::string> LaunchReports::finish(const std::string& summary) {
  std::vector<std::string> problems;
  if (page_ || recording_) {
    const std::string html = record_.html(summary);
    const auto written = page_ ? page_->write(html) : Result<void>();
    if (!written) problems.push_back("--html: " + written.error().message);
    if (recording_) recording_->add("report.html", html);
  }
  if (const auto lost = events_ ? events_->finish() : std::nullopt) {
    problems.push_back(lost->message);
  }
  for (TraceFile& file : traces_) {
    const bool is_recorded = recording_ && &file == &traces_.back();
    const auto lost = file.finish();
    if (lost)
      problems.push_back(is_recorded ? "--record: the trace in the recording lacks events"
                                     : lost->message);
  }
  if (const auto lost = digests_ ? digests_->finish() : std::nullopt) {
    problems.push_back(lost->message);
  }
  return problems;
}

Result<void> LaunchReports::end_recording(const RecordingFacts& facts,
                                          const std::string& log_folder) {
  if (!recording_) return {};
  if (!log_folder.empty()) recording_->add_folder("logs", log_folder);
  return recording_->finish(facts);
}

}  // namespace distrun
