#include "launcher/report/run_trace.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/units.h"
#include "distrun/process_end.h"
#include "launcher/report/event_json.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

// Ids of the processes that viewers show: different on every node, so that traces can be joined,
// and different from the ids of rows, because a row with the id of its process is its main thread.
constexpr int kFirstRank = 1'000'000, kFirstNode = 2'000'000;
// At most so many rows of a group are in order.
constexpr int kPlacesOfGroup = 1000;

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json arguments_of(const Operation& operation) {
  Json arguments = {{"op", operation.op}};
  if (operation.is_collective()) arguments["number"] = operation.sequence;
  arguments["group"] = operation.group;
  arguments["group_rank"] = operation.group_rank;
  arguments["group_size"] = operation.group_size;
  arguments["dtype"] = operation.dtype;
  arguments["sizes"] = operation.sizes;
  arguments["elements"] = operation.elements;
  if (operation.peer >= 0) {
    arguments[operation.is_collective() ? "root" : "peer"] = operation.peer;
  }
  return arguments;
}

}  // namespace

RunTrace::RunTrace(const LaunchPlan& plan, std::string host, Write write)
    : plan_(plan),
      host_(std::move(host)),
      write_(std::move(write)),
      run_row_{kFirstNode + plan.options.node_rank, kFirstNode + plan.options.node_rank},
      workers_(plan.workers.size()) {}

std::string RunTrace::head(TraceTime now) const {
  const Json other = {
      {"run_id", plan_.options.run_id},
      {"host", host_},
      {"node_rank", plan_.options.node_rank},
      {"nodes", plan_.options.nnodes},
      {"began_us", std::chrono::floor<std::chrono::microseconds>(now).time_since_epoch().count()},
      {"command", plan_.workers.empty() ? "" : command_line(plan_.workers.front())}};
  return trace_head(json_line(other));
}

void RunTrace::happened(const RunEvent& event, TraceTime now) {
  if (std::holds_alternative<RunStarted>(event)) {
    const std::string name =
        plan_.options.nnodes == 1
            ? fmt::format("distrun on {}", host_)
            : fmt::format("distrun, node {} ({})", plan_.options.node_rank, host_);
    write_(trace_process_name(run_row_.process, name, -1));
    write_(trace_row_name(run_row_, "run", 0));
  }
  if (const auto* attempt = std::get_if<AttemptStarted>(&event)) {
    end_attempt(now);
    is_in_attempt_ = true;
    return write_(trace_begin(run_row_, fmt::format("attempt {}", attempt->attempt), now));
  }
  if (const auto* worker = std::get_if<WorkerStarted>(&event)) return started(*worker, now);
  if (const auto* worker = std::get_if<WorkerEnded>(&event)) return ended(*worker, now);
  mark(event, now);
  if (std::holds_alternative<RunEnded>(event)) end_attempt(now);
}

void RunTrace::mark(const RunEvent& event, TraceTime now) {
  const auto at = std::chrono::floor<std::chrono::system_clock::duration>(now);
  write_(trace_instant(run_row_, event_name(event), now, event_json(event, plan_, host_, at)));
}

void RunTrace::started(const WorkerStarted& event, TraceTime now) {
  Worker& worker = at(event.worker);
  const int process = process_of(event.worker);
  const TraceRow life{process, process};
  if (!std::exchange(worker.is_named, true)) {
    const int rank = process - kFirstRank;
    write_(trace_process_name(process, fmt::format("rank {}", rank), rank));
    write_(trace_row_name(life, "worker", 0));
  }
  worker.cpu_before.emplace(now, 0);
  const Json arguments = {{"pid", event.pid}, {"local_rank", event.worker.value()}};
  write_(trace_begin(life, fmt::format("attempt {}", event.attempt), now, json_line(arguments)));
}

void RunTrace::ended(const WorkerEnded& event, TraceTime now) {
  Worker& worker = at(event.worker);
  const int process = process_of(event.worker);
  const std::string end = describe(event.end);
  if (!succeeded(event.end)) write_(trace_instant({process, process}, end, now));
  write_(trace_end({process, process}, now, json_line({{"end", end}})));
  for (const char* name : {"CPU %", "memory MiB"}) write_(trace_counter(process, name, now, 0));
  worker.ended = now;
  worker.cpu_before.reset();
}

void RunTrace::end_attempt(TraceTime now) {
  if (!std::exchange(is_in_attempt_, false)) return;
  for (Worker& worker : workers_) {
    const TraceTime ended = std::exchange(worker.ended, std::nullopt).value_or(now);
    for (auto& [number, open] : std::exchange(worker.open, {})) {
      open.rows->lanes.end(open.lane, ended);
      write_operation(open.rows->rows[open.lane], open.operation, ended);
    }
  }
  write_(trace_end(run_row_, now));
}

void RunTrace::operated(LocalRank worker, const Operation& operation) {
  auto& all = at(worker).open;
  const auto found = all.find(operation.number);
  if (found != all.end()) {
    Open& open = found->second;
    open.rows->lanes.end(open.lane, operation.ended.value_or(operation.began));
    write_operation(open.rows->rows[open.lane], operation, std::nullopt);
    all.erase(found);
    return;
  }
  Rows& rows = rows_for(worker, operation);
  const std::size_t lane = rows.lanes.take(operation.began);
  const TraceRow place = row(worker, rows, lane);
  if (operation.is_in_progress()) {
    all[operation.number] = {operation, &rows, lane};
    return;
  }
  rows.lanes.end(lane, operation.ended.value_or(operation.began));
  write_operation(place, operation, std::nullopt);
}

void RunTrace::write_operation(TraceRow row, const Operation& operation,
                               std::optional<TraceTime> worker_ended) {
  Json arguments = arguments_of(operation);
  if (operation.ended) {
    return write_(
        trace_slice(row, operation.op, operation.began, *operation.ended, json_line(arguments)));
  }
  if (!worker_ended) {
    return write_(
        trace_instant(row, operation.op + " (end unknown)", operation.began, json_line(arguments)));
  }
  arguments["unfinished"] = true;
  write_(trace_slice(row, operation.op + " (unfinished)", operation.began, *worker_ended,
                     json_line(arguments)));
}

void RunTrace::missed(LocalRank worker, std::uint64_t operations, TraceTime now) {
  const int process = process_of(worker);
  write_(trace_instant({process, process},
                       fmt::format("{} operations are missing: too fast for distrun", operations),
                       now));
}

void RunTrace::loaded(const std::vector<WorkerLoad>& loads, TraceTime now) {
  for (const WorkerLoad& load : loads) {
    const int process = process_of(load.worker);
    const auto before = std::exchange(at(load.worker).cpu_before, std::pair(now, load.cpu_time));
    if (before && now > before->first) {
      const std::chrono::duration<double> used = load.cpu_time - before->second,
                                          between = now - before->first;
      const double percent = std::max(0.0, 100 * used / between);
      write_(trace_counter(process, "CPU %", now, std::round(10 * percent) / 10));
    }
    const double mib = static_cast<double>(load.resident_bytes) / static_cast<double>(kMiB);
    write_(trace_counter(process, "memory MiB", now, std::round(10 * mib) / 10));
  }
}

int RunTrace::process_of(LocalRank worker) const {
  return kFirstRank + plan_.workers[static_cast<std::size_t>(worker.value())].rank.value();
}

RunTrace::Rows& RunTrace::rows_for(LocalRank worker, const Operation& operation) {
  auto& all = at(worker).rows;
  std::string key = operation.is_collective() ? "group " + operation.group : "sends and receives";
  if (!all.contains(key) && all.size() >= kGroupsMax) key = "other groups";
  Rows& rows = all[key];
  rows.name = key;
  return rows;
}

TraceRow RunTrace::row(LocalRank worker, Rows& rows, std::size_t lane) {
  if (lane < rows.rows.size()) return rows.rows[lane];
  Worker& its = at(worker);
  const TraceRow made{process_of(worker), ++its.rows_made};
  if (lane == 0) rows.place = static_cast<int>(its.rows.size()) * kPlacesOfGroup;
  const std::string name = lane == 0 ? rows.name : fmt::format("{} ({})", rows.name, lane + 1);
  write_(trace_row_name(made, name, rows.place + static_cast<int>(lane)));
  rows.rows.push_back(made);
  return made;
}

}  // namespace distrun
