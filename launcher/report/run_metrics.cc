#include "launcher/report/run_metrics.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "common/text/valid_utf8.h"

namespace distrun {

namespace {

std::string label_text(std::string_view value) {
  std::string text;
  for (const char byte : valid_utf8(value)) {  // Prometheus rejects other text.
    if (byte == '\\' || byte == '"') text += '\\';
    byte == '\n' ? text += "\\n" : text += byte;
  }
  return text;
}

std::string number_text(std::uint64_t number) { return fmt::to_string(number); }

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{}", std::chrono::duration<double>(time).count());
}

class MetricsText {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  // `labels` has braces, or is empty.
  void sample(const std::string& labels, const std::string& value) {
    text_ += fmt::format("{}{} {}\n", name_, labels, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

}  // namespace

void RunMetrics::happened(const RunEvent& event, Time now) {
  if (std::holds_alternative<AttemptStarted>(event)) workers_.assign(plan_.workers.size(), {});
  if (workers_.empty()) return;
  const auto at = [this](LocalRank worker) -> Worker& {
    return workers_[static_cast<std::size_t>(worker.value())];
  };
  if (const auto* worker = std::get_if<WorkerStarted>(&event)) {
    at(worker->worker).started = now;
    at(worker->worker).is_up = true;
  } else if (const auto* ended = std::get_if<WorkerEnded>(&event)) {
    at(ended->worker).is_up = false;
  } else if (const auto* found = std::get_if<StragglerFound>(&event)) {
    if (Worker* const slow = of_rank(found->straggler.rank)) slow->is_straggler = true;
  } else if (const auto* differ = std::get_if<ValuesDiffer>(&event)) {
    // The most ranks are first, and are right unless as many others agree.
    const auto& all = differ->difference.ranks;
    const bool is_tie = all.size() > 1 && all[0].size() == all[1].size();
    for (std::size_t i = is_tie ? 0 : 1; i < all.size(); ++i) {
      for (const int rank : all[i]) {
        if (Worker* const other = of_rank(rank)) other->has_other_values = true;
      }
    }
  }
}

RunMetrics::Worker* RunMetrics::of_rank(int rank) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (plan_.workers[i].rank.value() == rank) return &workers_[i];
  }
  return nullptr;
}

std::string RunMetrics::text(const RunSnapshot& snapshot) const {
  MetricsText metrics;
  metrics.family("distrun_run_info", "gauge", "The run and this node; always 1.");
  metrics.sample(
      fmt::format(R"({{run_id="{}",host="{}",node_rank="{}"}})", label_text(plan_.options.run_id),
                  label_text(host_), plan_.options.node_rank),
      "1");
  metrics.family("distrun_run_workers", "gauge", "Workers of this node.");
  metrics.sample("", fmt::to_string(plan_.workers.size()));
  metrics.family("distrun_run_restarts_total", "counter", "Restarts of the run.");
  metrics.sample("", fmt::to_string(snapshot.attempt));

  // `value` returns nullopt if it is not known.
  const auto of_workers = [&](std::string_view name, std::string_view type, std::string_view help,
                              auto value) {
    metrics.family(fmt::format("distrun_worker_{}", name), type, help);
    for (std::size_t i = 0; i < snapshot.workers.size() && i < workers_.size(); ++i) {
      const std::optional<std::string> known = value(snapshot.workers[i], workers_[i]);
      if (!known) continue;
      metrics.sample(fmt::format(R"({{rank="{}"}})", snapshot.workers[i].rank), *known);
    }
  };
  using Text = std::optional<std::string>;
  using Snapshot = WorkerSnapshot;
  of_workers(
      "up", "gauge", "1 if the worker is running.",
      [](const Snapshot&, const Worker& worker) -> Text { return worker.is_up ? "1" : "0"; });
  of_workers("pid", "gauge", "Process id of the worker.",
             [](const Snapshot& one, const Worker&) -> Text {
               return one.pid < 0 ? Text() : fmt::to_string(one.pid);
             });
  of_workers("start_time_seconds", "gauge", "When the worker started, in seconds since 1970.",
             [](const Snapshot&, const Worker& worker) -> Text {
               if (!worker.started) return std::nullopt;
               const auto time = std::chrono::floor<std::chrono::milliseconds>(*worker.started);
               const auto count = time.time_since_epoch().count();
               return fmt::format("{}.{:03}", count / 1000, count % 1000);
             });
  of_workers("cpu_seconds_total", "counter",
             "CPU time of the worker's own process in this attempt.",
             [](const Snapshot& one, const Worker&) -> Text {
               return one.cpu_time ? seconds_text(*one.cpu_time) : Text();
             });
  of_workers("resident_memory_bytes", "gauge", "Resident memory of the worker's own process.",
             [](const Snapshot& one, const Worker&) -> Text {
               return one.memory_bytes ? number_text(*one.memory_bytes) : Text();
             });
  of_workers(
      "processes", "gauge", "Processes in the worker's session, with the worker.",
      [](const Snapshot& one, const Worker&) -> Text { return fmt::to_string(one.processes); });
  of_workers(
      "output_bytes_total", "counter",
      "Bytes that the worker wrote to stdout and stderr in this attempt.",
      [](const Snapshot& one, const Worker&) -> Text { return number_text(one.output_bytes); });
  of_workers("operations_total", "counter",
             "Collectives, sends and receives that the worker started in this attempt.",
             [](const Snapshot& one, const Worker&) -> Text {
               return one.operations > 0 ? number_text(one.operations) : Text();
             });
  of_workers("last_collective_number", "gauge",
             "Number in its group of the last collective that the worker started.",
             [](const Snapshot& one, const Worker&) -> Text {
               return one.last_collective > 0 ? fmt::to_string(one.last_collective) : Text();
             });
  of_workers("straggler", "gauge", "1 if the worker held up the others in this attempt.",
             [](const Snapshot&, const Worker& worker) -> Text {
               return worker.is_straggler ? "1" : "0";
             });
  of_workers("values_differ", "gauge",
             "1 if the worker received other values than most workers in this attempt (--digest).",
             [](const Snapshot&, const Worker& worker) -> Text {
               return worker.has_other_values ? "1" : "0";
             });
  return metrics.take();
}

}  // namespace distrun
