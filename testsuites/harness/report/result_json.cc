#include "testsuites/harness/report/result_json.h"

#include <nlohmann/json.hpp>

#include "common/text/utc_time.h"

namespace distrun {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const AssertionFailure& failure, WallTime origin);
Json json_of(const TimedOperation& one, WallTime origin);
Json json_of(const Collective& collective);
Json json_of(const RankResult& rank, WallTime origin);

// `arguments` are passed on to json_of() after the element.
template <class Range, class... Arguments>
Json list_of(const Range& range, const Arguments&... arguments) {
  Json list = Json::array();
  for (const auto& one : range) list.push_back(json_of(one, arguments...));
  return list;
}

// Seconds with six decimals.
Json seconds_after(WallTime origin, const std::optional<WallTime>& time) {
  if (!time) return nullptr;
  return static_cast<double>((*time - origin).count()) / 1e6;
}

Json json_of(const AssertionFailure& failure, WallTime origin) {
  return {{"file", failure.file},
          {"line", failure.line},
          {"message", failure.message},
          {"at_s", seconds_after(origin, failure.at)}};
}

Json json_of(const TimedOperation& one, WallTime origin) {
  return Json::array({one.op, one.tensors, seconds_after(origin, one.began),
                      seconds_after(origin, one.ended), one.has_completed()});
}

Json json_of(const Collective& collective) {
  return {{"op", collective.op},
          {"sizes", collective.sizes},
          {"dtype", collective.dtype},
          {"count", collective.count}};
}

Json json_of(const RankResult& rank, WallTime origin) {
  Json json = {{"rank", rank.rank},
               {"status", text_of(rank.status)},
               {"assertions", rank.assertions},
               {"failures", list_of(rank.failures, origin)},
               {"skip_reason", rank.skip_reason},
               {"end", rank.end},
               {"stands_at", rank.stands_at},
               {"output", rank.output},
               {"began_s", seconds_after(origin, rank.began)},
               {"ended_s", seconds_after(origin, rank.ended)},
               {"operations", list_of(rank.times.operations, origin)},
               {"operations_left_out", rank.times.left_out},
               {"leaked_processes", rank.leaked},
               {"collectives", list_of(rank.collectives)}};
  if (rank.host.empty()) return json;
  json["node"] = rank.node;
  json["host"] = rank.host;
  return json;
}

Json json_of(const AttemptResult& attempt, WallTime begin_of_run) {
  return {{"attempt", attempt.attempt},
          {"status", text_of(attempt.status)},
          {"began_s", seconds_after(begin_of_run, attempt.began)},
          {"seconds", seconds(attempt.time)},
          {"reason", attempt.reason},
          {"culprits", attempt.culprits},
          {"where", attempt.where.line},
          {"stacks", attempt.where.stacks},
          {"ranks", list_of(attempt.ranks, attempt.began)}};
}

Json json_of(const TestResult& result, WallTime begin_of_run) {
  const bool started = !result.attempts.empty();
  const AttemptResult none{.attempt = 0};
  const AttemptResult& last = started ? result.attempts.back() : none;
  Json earlier = Json::array();
  for (std::size_t i = 0; i + 1 < result.attempts.size(); ++i) {
    earlier.push_back(json_of(result.attempts[i], begin_of_run));
  }
  return {{"id", result.test.id},
          {"status", text_of(result.status)},
          {"seconds", seconds(result.time)},
          {"reason", result.reason},
          {"file", result.test.file},
          {"line", result.test.line},
          {"repetition", result.repetition},
          {"backend", result.backend},
          {"repeat_command", result.repeat_command},
          {"attempt", last.attempt},
          {"began_s", started ? seconds_after(begin_of_run, last.began) : Json()},
          {"culprits", last.culprits},
          {"where", last.where.line},
          {"stacks", last.where.stacks},
          {"ranks", list_of(last.ranks, last.began)},
          {"earlier_attempts", std::move(earlier)}};
}

Json json_of(const TestsSummary& summary) {
  return {{"passed", summary.passed},   {"failed", summary.failed},
          {"skipped", summary.skipped}, {"flaky", summary.flaky},
          {"not_run", summary.not_run}, {"seconds", seconds(summary.time)}};
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string result_json(const TestsBegun& begun, const TestsEnded& ended) {
  const Json run = {{"summary", json_of(ended.summary)},
                    {"began", rfc3339(begun.at)},
                    {"host", begun.host},
                    {"nodes", begun.nodes},
                    {"seed", begun.seed},
                    {"jobs", begun.jobs},
                    {"binaries", begun.binaries}};
  std::string text = "{\n";
  for (const auto& [name, value] : run.items())
    text += " \"" + name + "\": " + line_of(value) + ",\n";
  text += " \"tests\": [";
  // Test by test: a tree of all would take several times the memory.
  std::string_view separator = "\n  ";
  for (const TestResult& result : ended.results) {
    text.append(separator).append(line_of(json_of(result, begun.at)));
    separator = ",\n  ";
  }
  return text + "\n ]\n}\n";
}

}  // namespace distrun
