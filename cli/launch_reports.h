// LaunchReports writes what a run reports besides its output: --events, --html, --trace,
// --record, --save-digests and --metrics-port. It also reads what the run is compared with
// (--compare-digests).
//
//     auto reports = LaunchReports::open(flags, plan, host);      // before anything starts
//     if (!reports) return reports.error();                       // "--trace a: is a directory"
//     (*reports)->listen(context);
//     run_launch(plan, files, context);
//     for (const auto& problem : (*reports)->finish(summary)) …   // "--events a: 1 line is …"
//     auto written = (*reports)->end_recording(facts, folder);    // last
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch_options.h"
#include "common/os/result_file.h"
#include "distrun/result.h"
#include "launcher/plan/plan.h"
#include "launcher/report/digest_file.h"
#include "launcher/report/line_file.h"
#include "launcher/report/run_metrics.h"
#include "launcher/report/run_record.h"
#include "launcher/report/run_trace.h"
#include "launcher/report/trace_file.h"
#include "launcher/run/launch_context.h"
#include "recording/recording_writer.h"

namespace distrun {

class LaunchReports {
 public:
  // `plan` must outlive it. Fails with kInvalidArgument if a file cannot be written.
  static Result<std::unique_ptr<LaunchReports>> open(const LaunchFlags& flags,
                                                     const LaunchPlan& plan,
                                                     const std::string& host);
  LaunchReports(const LaunchReports&) = delete;
  LaunchReports& operator=(const LaunchReports&) = delete;

  // Sets every function of `context` but the summary. It must outlive the run.
  void listen(LaunchContext& context);

  // Gets what distrun prints outside of the run. nullptr without --record.
  RecordingWriter* recording() { return recording_ ? &*recording_ : nullptr; }

  // Writes the rest, and returns what is missing. `summary` is what distrun printed at the end.
  std::vector<std::string> finish(const std::string& summary);

  // Writes the file of --record, if there is one. Nothing that is printed later is in it.
  // `log_folder`: of the run's log files; empty: there are none.
  Result<void> end_recording(const RecordingFacts& facts, const std::string& log_folder);

 private:
  LaunchReports(const LaunchPlan& plan, const std::string& host);

  Result<void> open_recording(const std::string& path);
  std::string happened(const RunEvent& event);
  void loaded(const std::vector<WorkerLoad>& loads);
  void flush_traces();

  const LaunchPlan& plan_;
  const std::string host_;
  std::optional<LineFile> events_;
  std::optional<ResultFile> page_;
  std::vector<TraceFile> traces_;  // The file, the recording's, or both.
  std::optional<RecordingWriter> recording_;
  std::optional<DigestFile> digests_;
  std::optional<RecordedDigests> recorded_;
  RunRecord record_;  // For the page.
  RunTrace trace_;
  RunMetrics metrics_;
};

}  // namespace distrun
