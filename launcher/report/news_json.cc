#include "launcher/report/news_json.h"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

std::string rfc3339(std::chrono::system_clock::time_point at) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(at);
  const auto whole = std::chrono::floor<std::chrono::seconds>(ms);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     (ms - whole).count());
}

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

const char* event_of(const RunBegan&) { return "run_began"; }
const char* event_of(const NodesNoticed&) { return "nodes_noticed"; }
const char* event_of(const AttemptBegan&) { return "attempt_began"; }
const char* event_of(const WorkerBegan&) { return "worker_began"; }
const char* event_of(const WorkerEnded&) { return "worker_ended"; }
const char* event_of(const OutputHeld&) { return "output_held"; }
const char* event_of(const LeftoversEnded&) { return "leftovers_ended"; }
const char* event_of(const Signalled&) { return "signalled"; }
const char* event_of(const Suspended&) { return "suspended"; }
const char* event_of(const Continued&) { return "continued"; }
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

void add(Json& json, const LaunchPlan& plan, const RunBegan& news) {
  json["launcher_pid"] = news.launcher_pid;
  json["store"] = news.store;
  json["workers"] = plan.workers.size();
}
void add(Json& json, const LaunchPlan&, const NodesNoticed& news) { json["text"] = news.text; }
void add(Json& json, const LaunchPlan&, const AttemptBegan& news) {
  json["attempt"] = news.attempt;
}
void add(Json& json, const LaunchPlan& plan, const WorkerBegan& news) {
  json["attempt"] = news.attempt;
  add(json, plan, news.worker);
  json["pid"] = news.pid;
}
void add(Json& json, const LaunchPlan& plan, const WorkerEnded& news) {
  json["attempt"] = news.attempt;
  add(json, plan, news.worker);
  json["pid"] = news.pid;
  add(json, news.end);
  json["run_time_s"] = seconds(news.run_time);
}
void add(Json& json, const LaunchPlan& plan, const OutputHeld& news) {
  add(json, plan, news.worker);
}
void add(Json& json, const LaunchPlan&, const LeftoversEnded& news) {
  Json processes = Json::array();
  for (const Leftover& process : news.processes) {
    processes.push_back({{"pid", process.pid}, {"name", process.name}});
  }
  json["processes"] = std::move(processes);
}
void add(Json& json, const LaunchPlan&, const Signalled& news) {
  json["signal"] = signal_name(news.signal);
  json["forwarded"] = news.forwarded;
}
void add(Json&, const LaunchPlan&, const Suspended&) {}
void add(Json&, const LaunchPlan&, const Continued&) {}
void add(Json& json, const LaunchPlan& plan, const AttemptFailed& news) {
  json["attempt"] = news.attempt;
  add(json, plan, news.end);
}
void add(Json& json, const LaunchPlan& plan, const RunEnded& news) { add(json, plan, news.end); }

}  // namespace

std::string news_json(const RunNews& news, const LaunchPlan& plan, const std::string& host,
                      std::chrono::system_clock::time_point at) {
  Json json;
  json["time"] = rfc3339(at);
  json["event"] = std::visit([](const auto& what) { return event_of(what); }, news);
  json["run_id"] = plan.options.run_id;
  json["host"] = host;
  json["node_rank"] = plan.options.node_rank;
  std::visit([&](const auto& what) { add(json, plan, what); }, news);
  // Names of processes and files are bytes; JSON is UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace distrun
