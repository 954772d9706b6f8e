#include "launcher/report/event_json.h"

#include <nlohmann/json.hpp>

#include "common/text/utc_time.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

double seconds(std::chrono::milliseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

const char* name_of(RunEnd::Cause cause) {
  switch (cause) {
    case RunEnd::Cause::kSucceeded:
      return "succeeded";
    case RunEnd::Cause::kWorkerFailed:
      return "worker_failed";
    case RunEnd::Cause::kSpawnFailed:
      return "spawn_failed";
    case RunEnd::Cause::kInterrupted:
      return "interrupted";
    case RunEnd::Cause::kTimedOut:
      return "timed_out";
    case RunEnd::Cause::kHung:
      return "hung";
    case RunEnd::Cause::kOutputLost:
      return "output_lost";
    case RunEnd::Cause::kGuardLost:
      return "guard_lost";
    case RunEnd::Cause::kNotJoined:
      return "not_joined";
    case RunEnd::Cause::kOtherNode:
      return "other_node";
  }
  return "unknown";
}

const char* event_of(const RunStarted&) { return "run_started"; }
const char* event_of(const NodeNotice&) { return "node_notice"; }
const char* event_of(const AttemptStarted&) { return "attempt_started"; }
const char* event_of(const WorkerStarted&) { return "worker_started"; }
const char* event_of(const WorkerEnded&) { return "worker_ended"; }
const char* event_of(const OutputLeaked&) { return "output_leaked"; }
const char* event_of(const LeakedProcessesKilled&) { return "leaked_processes_killed"; }
const char* event_of(const SignalReceived&) { return "signal_received"; }
const char* event_of(const RunSuspended&) { return "run_suspended"; }
const char* event_of(const RunContinued&) { return "run_continued"; }
const char* event_of(const WorkersStillRunning&) { return "workers_still_running"; }
const char* event_of(const StragglerFound&) { return "straggler_found"; }
const char* event_of(const CallsDiffer&) { return "calls_differ"; }
const char* event_of(const ValuesDiffer&) { return "values_differ"; }
const char* event_of(const ValuesCompared&) { return "values_compared"; }
const char* event_of(const RecordingDiffers&) { return "recording_differs"; }
const char* event_of(const RecordingCompared&) { return "recording_compared"; }
const char* event_of(const StacksRead&) { return "stacks_read"; }
const char* event_of(const AttemptFailed&) { return "attempt_failed"; }
const char* event_of(const RunEnded&) { return "run_ended"; }

void add(Json& json, const ProcessEnd& end) {
  if (const auto* exited = std::get_if<ExitedWith>(&end)) {
    json["exit_code"] = exited->code;
  } else {
    json["signal"] = signal_name(std::get<KilledBy>(end).signal);
  }
}

void add(Json& json, const LaunchPlan& plan, LocalRank worker) {
  json["rank"] = plan.workers[static_cast<std::size_t>(worker.value())].rank.value();
  json["local_rank"] = worker.value();
}

void add(Json& json, const LaunchPlan& plan, const RunEnd& end) {
  json["cause"] = name_of(end.cause);
  json["exit_status"] = exit_status(end);
  if (end.culprit) {
    Json culprit;
    add(culprit, plan, *end.culprit);
    const auto& outcome = end.workers[static_cast<std::size_t>(end.culprit->value())];
    if (outcome.end) add(culprit, *outcome.end);
    json["culprit"] = std::move(culprit);
  }
  if (end.cause == RunEnd::Cause::kInterrupted) json["signal"] = signal_name(end.signal);
  if (end.cause == RunEnd::Cause::kOtherNode && end.verdict) {
    json["verdict"] = {{"node_rank", end.verdict->node},
                       {"host", end.verdict->host},
                       {"headline", end.verdict->headline}};
  }
  if (end.error) json["error"] = end.error->message;
}

void add(Json& json, const LaunchPlan& plan, const RunStarted& event) {
  json["launcher_pid"] = event.launcher_pid;
  json["store"] = event.store;
  json["workers"] = plan.workers.size();
}
void add(Json& json, const LaunchPlan&, const NodeNotice& event) { json["text"] = event.text; }
void add(Json& json, const LaunchPlan&, const AttemptStarted& event) {
  json["attempt"] = event.attempt;
}
void add(Json& json, const LaunchPlan& plan, const WorkerStarted& event) {
  json["attempt"] = event.attempt;
  add(json, plan, event.worker);
  json["pid"] = event.pid;
}
void add(Json& json, const LaunchPlan& plan, const WorkerEnded& event) {
  json["attempt"] = event.attempt;
  add(json, plan, event.worker);
  json["pid"] = event.pid;
  add(json, event.end);
  json["run_time_s"] = seconds(event.run_time);
}
void add(Json& json, const LaunchPlan& plan, const OutputLeaked& event) {
  json["attempt"] = event.attempt;
  add(json, plan, event.worker);
}
void add(Json& json, const LaunchPlan&, const LeakedProcessesKilled& event) {
  json["attempt"] = event.attempt;
  Json processes = Json::array();
  for (const LeakedProcess& process : event.processes) {
    processes.push_back({{"pid", process.pid}, {"name", process.name}});
  }
  json["processes"] = std::move(processes);
}
void add(Json& json, const LaunchPlan&, const SignalReceived& event) {
  json["signal"] = signal_name(event.signal);
  json["forwarded"] = event.forwarded;
}
void add(Json&, const LaunchPlan&, const RunSuspended&) {}
void add(Json&, const LaunchPlan&, const RunContinued&) {}
void add(Json& json, const LaunchPlan& plan, const WorkersStillRunning& event) {
  json["attempt"] = event.attempt;
  Json workers = Json::array();
  for (const auto& [worker, pid] : event.workers) {
    Json entry;
    add(entry, plan, worker);
    entry["pid"] = pid;
    workers.push_back(std::move(entry));
  }
  json["workers"] = std::move(workers);
  if (event.until_kill) json["kill_in_s"] = seconds(*event.until_kill);
}
void add(Json& json, const LaunchPlan&, const StragglerFound& event) {
  const Straggler& found = event.straggler;
  json["attempt"] = event.attempt;
  json["rank"] = found.rank;
  json["group"] = found.group;
  json["number"] = found.number;
  json["times_last"] = found.times_last;
  json["collectives"] = found.collectives;
  json["lateness_s"] = std::chrono::duration<double>(found.lateness).count();
  json["share"] = found.share;
}
void add(Json& json, const LaunchPlan&, const CallsDiffer& event) {
  const auto& calls = event.difference.calls;
  json["attempt"] = event.attempt;
  json["group"] = calls[0].operation.group;
  json["number"] = calls[0].operation.sequence;
  Json& all = json["calls"] = Json::array();
  for (const auto& [operation, ranks] : calls) {
    all.push_back({{"op", operation.op},
                   {"dtype", operation.dtype},
                   {"sizes", operation.sizes},
                   {"ranks", ranks}});
  }
  json["text"] = text_of(event.difference);
}
// A DigestDifference or a RecordDifference.
void add_difference(Json& json, const auto& found) {
  json["op"] = found.operation.op;
  json["group"] = found.operation.group;
  json["number"] = found.operation.sequence;
  json["ranks"] = found.ranks;
  if (found.elements) json["elements"] = {found.elements->first, found.elements->last - 1};
  json["text"] = text_of(found);
}
void add(Json& json, const LaunchPlan&, const ValuesDiffer& event) {
  json["attempt"] = event.attempt;
  add_difference(json, event.difference);
}
void add(Json& json, const LaunchPlan&, const ValuesCompared& event) {
  json["attempt"] = event.attempt;
  json["collectives"] = event.collectives;
  json["missed"] = event.missed;
}
const char* name_of(RecordDifference::Kind kind) {
  switch (kind) {
    case RecordDifference::Kind::kCall:
      return "call";
    case RecordDifference::Kind::kInputs:
      return "inputs";
    case RecordDifference::Kind::kOutputs:
      return "outputs";
  }
  return "unknown";
}
void add(Json& json, const LaunchPlan&, const RecordingDiffers& event) {
  json["attempt"] = event.attempt;
  json["what"] = name_of(event.difference.kind);
  add_difference(json, event.difference);
}
void add(Json& json, const LaunchPlan&, const RecordingCompared& event) {
  json["attempt"] = event.attempt;
  json["collectives"] = event.collectives;
  json["recorded"] = event.recorded;
  json["same"] = event.is_same;
}
void add(Json& json, const LaunchPlan&, const StacksRead& event) {
  json["attempt"] = event.attempt;
  if (const auto text = event.collectives(); !text.empty()) json["collectives"] = text;
  if (!event.nccl.empty()) json["nccl"] = event.nccl;
  json["where"] = event.where.line;
  json["stacks"] = event.where.stacks;
}
void add(Json& json, const LaunchPlan& plan, const AttemptFailed& event) {
  json["attempt"] = event.attempt;
  add(json, plan, event.end);
}
void add(Json& json, const LaunchPlan& plan, const RunEnded& event) { add(json, plan, event.end); }

}  // namespace

const char* event_name(const RunEvent& event) {
  return std::visit([](const auto& what) { return event_of(what); }, event);
}

std::string event_json(const RunEvent& event, const LaunchPlan& plan, const std::string& host,
                       std::chrono::system_clock::time_point at) {
  Json json;
  json["time"] = rfc3339(at);
  json["event"] = event_name(event);
  json["run_id"] = plan.options.run_id;
  json["host"] = host;
  json["node_rank"] = plan.options.node_rank;
  std::visit([&](const auto& what) { add(json, plan, what); }, event);
  // Names of processes and files may not be UTF-8; JSON must be.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace distrun
