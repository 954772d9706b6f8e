#include "launcher/report/run_snapshot.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/printable.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

template <class Value>
Json json_or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

std::optional<milliseconds::rep> count_of(const std::optional<milliseconds>& time) {
  return time ? std::optional(time->count()) : std::nullopt;
}

WorkerSnapshot worker_from(const Json& json) {
  WorkerSnapshot worker{.rank = required_number<int>(json.at("rank")),
                        .pid = required_number<pid_t>(json.at("pid")),
                        .state = json.at("state").get<std::string>(),
                        .run_time = milliseconds(required_number<std::int64_t>(json.at("run_ms"))),
                        .processes = required_number<int>(json.at("processes")),
                        .output_bytes = required_number<std::uint64_t>(json.at("output_bytes")),
                        .collective = json.value("collective", "")};
  if (!json.at("cpu_ms").is_null()) {
    worker.cpu_time = milliseconds(required_number<std::int64_t>(json.at("cpu_ms")));
  }
  if (!json.at("memory_bytes").is_null()) {
    worker.memory_bytes = required_number<std::uint64_t>(json.at("memory_bytes"));
  }
  return worker;
}

std::string text_of(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

const WorkerSnapshot* same_process(const RunSnapshot* before, const WorkerSnapshot& worker) {
  if (before == nullptr || worker.pid < 0) return nullptr;
  const auto found = std::find_if(
      before->workers.begin(), before->workers.end(),
      [&](const auto& one) { return one.rank == worker.rank && one.pid == worker.pid; });
  return found == before->workers.end() ? nullptr : &*found;
}

std::vector<std::string> cells_of(const WorkerSnapshot& worker, const WorkerSnapshot* before,
                                  milliseconds between, bool shows_collectives) {
  const bool has_started = worker.pid >= 0;
  std::string cpu = "-", output = "-";
  if (before != nullptr && between.count() > 0) {
    if (worker.cpu_time && before->cpu_time) {
      const auto used = (*worker.cpu_time - *before->cpu_time).count();
      cpu = fmt::format("{}%", std::max<milliseconds::rep>(used, 0) * 100 / between.count());
    }
    const auto written = worker.output_bytes - std::min(before->output_bytes, worker.output_bytes);
    output =
        text_of(static_cast<double>(written) * 1000 / static_cast<double>(between.count())) + "/s";
  }
  std::vector<std::string> cells = {
      fmt::to_string(worker.rank),
      has_started ? fmt::to_string(worker.pid) : "-",
      has_started ? fmt::format("{:.1f} s", std::chrono::duration<double>(worker.run_time).count())
                  : "-",
      cpu,
      worker.memory_bytes ? text_of(static_cast<double>(*worker.memory_bytes)) : "-",
      output,
      worker.processes > 0 ? fmt::to_string(worker.processes) : "-"};
  if (shows_collectives) {
    cells.push_back(worker.collective.empty() ? "-" : printable(worker.collective, 60));
  }
  cells.push_back(worker.state);
  return cells;
}

}  // namespace

std::vector<WorkerSnapshot> snapshots_of(const std::vector<WorkerRow>& rows,
                                         const std::vector<std::uint64_t>& output_bytes) {
  std::vector<WorkerSnapshot> workers;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const WorkerRow& row = rows[i];
    WorkerSnapshot worker{.rank = row.rank.value(),
                          .pid = row.pid,
                          .state = state_text(row),
                          .run_time = row.run_time,
                          .processes = row.processes,
                          .output_bytes = output_bytes[i]};
    if (row.stat && !row.end) {
      worker.cpu_time = row.stat->cpu_time;
      worker.memory_bytes = row.stat->resident_bytes;
    }
    workers.push_back(std::move(worker));
  }
  return workers;
}

std::string snapshot_json(const RunSnapshot& snapshot) {
  Json workers = Json::array();
  for (const WorkerSnapshot& worker : snapshot.workers) {
    workers.push_back({{"rank", worker.rank},
                       {"pid", worker.pid},
                       {"state", worker.state},
                       {"run_ms", worker.run_time.count()},
                       {"cpu_ms", json_or_null(count_of(worker.cpu_time))},
                       {"memory_bytes", json_or_null(worker.memory_bytes)},
                       {"processes", worker.processes},
                       {"output_bytes", worker.output_bytes},
                       {"collective", worker.collective}});
  }
  const Json json = {{"about", snapshot.about},
                     {"attempt", snapshot.attempt},
                     {"at_ms", snapshot.at.count()},
                     {"workers", std::move(workers)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<RunSnapshot> parse_snapshot(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    RunSnapshot snapshot{.about = json.at("about").get<std::string>(),
                         .attempt = required_number<int>(json.at("attempt")),
                         .at = milliseconds(required_number<std::int64_t>(json.at("at_ms"))),
                         .workers = {}};
    for (const Json& worker : json.at("workers")) snapshot.workers.push_back(worker_from(worker));
    return snapshot;
  } catch (const std::exception&) {
    return Error{ErrorKind::kProtocol,
                 "the run's answer is malformed; does the run use another version of distrun?"};
  }
}

std::string top_table(const RunSnapshot& now, const RunSnapshot* before, std::size_t workers_max) {
  std::vector<std::vector<std::string>> lines = {
      {"rank", "pid", "time", "CPU", "memory", "output", "processes"}};
  const bool shows_collectives =
      std::any_of(now.workers.begin(), now.workers.end(),
                  [](const WorkerSnapshot& worker) { return !worker.collective.empty(); });
  if (shows_collectives) lines.front().emplace_back("collective");
  lines.front().emplace_back("state");
  const milliseconds between = before == nullptr ? milliseconds(0) : now.at - before->at;
  const std::size_t shown = std::min(now.workers.size(), workers_max);
  for (std::size_t i = 0; i < shown; ++i) {
    const WorkerSnapshot& worker = now.workers[i];
    lines.push_back(cells_of(worker, same_process(before, worker), between, shows_collectives));
  }
  std::string text = printable(now.about, 200);
  if (now.attempt > 0) text += fmt::format("; restart {}", now.attempt);
  text += '\n' + aligned_columns(lines);
  if (shown < now.workers.size()) {
    text += fmt::format("… and {} more\n", now.workers.size() - shown);
  }
  return text;
}

}  // namespace distrun
