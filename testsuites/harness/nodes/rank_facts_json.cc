#include "testsuites/harness/nodes/rank_facts_json.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/text/json_number.h"
#include "testsuites/harness/protocol/facts_json.h"
#include "testsuites/harness/protocol/process_end_json.h"

namespace distrun {

namespace {

using nlohmann::json;

template <class T, class Make>
json array_of(const std::vector<T>& list, const Make& make) {
  json all = json::array();
  for (const T& one : list) all.push_back(make(one));
  return all;
}

template <class T, class Read>
std::vector<T> list_from(const json& array, const Read& read) {
  std::vector<T> list;
  for (const json& one : array) list.push_back(read(one));
  return list;
}

json frame_json(const Frame& frame) {
  return {frame.function, frame.source, frame.line, frame.module};
}

Frame stack_frame_from(const json& frame) {
  return {.function = frame.at(0).get<std::string>(),
          .source = frame.at(1).get<std::string>(),
          .line = required_number<int>(frame.at(2)),
          .module = frame.at(3).get<std::string>()};
}

json thread_json(const ThreadStack& thread) {
  return {{"tid", thread.tid},
          {"name", thread.name},
          {"frames", array_of(thread.frames, frame_json)},
          {"problem", thread.problem}};
}

ThreadStack thread_from(const json& thread) {
  return {.tid = required_number<pid_t>(thread.at("tid")),
          .name = thread.at("name").get<std::string>(),
          .frames = list_from<Frame>(thread.at("frames"), stack_frame_from),
          .problem = thread.at("problem").get<std::string>()};
}

json process_json(const ProcessStacks& process) {
  return {{"pid", process.pid},
          {"name", process.name},
          {"state", std::string(1, process.state)},
          {"threads", array_of(process.threads, thread_json)},
          {"problem", process.problem}};
}

ProcessStacks process_from(const json& process) {
  return {.pid = required_number<pid_t>(process.at("pid")),
          .name = process.at("name").get<std::string>(),
          .state = process.at("state").get<std::string>().at(0),
          .threads = list_from<ThreadStack>(process.at("threads"), thread_from),
          .problem = process.at("problem").get<std::string>()};
}

json rank_json(const RankStacks& rank) {
  return {{"rank", rank.rank},
          {"processes", array_of(rank.processes, process_json)},
          {"awaited", rank.awaited}};
}

RankStacks rank_from(const json& rank) {
  return {.rank = required_number<int>(rank.at("rank")),
          .processes = list_from<ProcessStacks>(rank.at("processes"), process_from),
          .awaited = rank.at("awaited").get<std::string>()};
}

json socket_json(const RankSocket& socket) {
  return {{"rank", socket.rank},
          {"address", socket.address},
          {"peer", socket.peer},
          {"unread", socket.unread},
          {"undelivered", socket.undelivered},
          {"closed", socket.is_closed_by_peer}};
}

RankSocket socket_from(const json& socket) {
  return {.rank = required_number<int>(socket.at("rank")),
          .address = socket.at("address").get<std::string>(),
          .peer = socket.at("peer").get<std::string>(),
          .unread = required_number<std::uint32_t>(socket.at("unread")),
          .undelivered = required_number<std::uint32_t>(socket.at("undelivered")),
          .is_closed_by_peer = socket.at("closed").get<bool>()};
}

template <class T, class Make>
json json_or_null(const std::optional<T>& value, const Make& make) {
  return value ? json(make(*value)) : json();
}

template <class T, class Read>
std::optional<T> unless_null(const json& value, const Read& read) {
  return value.is_null() ? std::nullopt : std::optional<T>(read(value));
}

json text_json(const std::string& text) { return text; }
std::string text_from(const json& text) { return text.get<std::string>(); }

}  // namespace

json to_json(const RankFacts& facts) {
  const auto to = [](const auto& value) { return to_json(value); };
  return {{"not_started", json_or_null(facts.not_started, text_json)},
          {"end", json_or_null(facts.end, end_json)},
          {"crashed_in", facts.crashed_in},
          {"host_lost", facts.host_lost},
          {"was_ended", facts.was_ended},
          {"was_late", facts.was_late},
          {"is_done", facts.is_done},
          {"assertions", facts.assertions},
          {"failures", array_of(facts.failures, to)},
          {"failures_lost", facts.failures_lost},
          {"skip_reason", json_or_null(facts.skip_reason, text_json)},
          {"sent_garbage", facts.sent_garbage},
          {"stands_at", facts.stands_at},
          {"told", facts.told},
          {"output", facts.output},
          {"output_lost", {facts.output_lost.lines, facts.output_lost.bytes}},
          {"collectives", json_or_null(facts.collectives, to)},
          {"leaked", facts.leaked},
          {"began_at", time_json(facts.began_at)},
          {"ended_at", time_json(facts.ended_at)}};
}

RankFacts rank_facts_from(const json& facts) {
  const json& lost = facts.at("output_lost");
  return {
      .not_started = unless_null<std::string>(facts.at("not_started"), text_from),
      .end = unless_null<ProcessEnd>(facts.at("end"), end_from),
      .crashed_in = facts.at("crashed_in").get<std::string>(),
      .host_lost = facts.at("host_lost").get<bool>(),
      .was_ended = facts.at("was_ended").get<bool>(),
      .was_late = facts.at("was_late").get<bool>(),
      .is_done = facts.at("is_done").get<bool>(),
      .assertions = required_number<int>(facts.at("assertions")),
      .failures = list_from<AssertionFailure>(facts.at("failures"), failure_from),
      .failures_lost = required_number<int>(facts.at("failures_lost")),
      .skip_reason = unless_null<std::string>(facts.at("skip_reason"), text_from),
      .sent_garbage = facts.at("sent_garbage").get<bool>(),
      .stands_at = facts.at("stands_at").get<std::string>(),
      .told = facts.at("told").get<std::string>(),
      .output = facts.at("output").get<std::string>(),
      .output_lost = {.lines = required_number<std::size_t>(lost.at(0)),
                      .bytes = required_number<std::size_t>(lost.at(1))},
      .collectives = unless_null<CollectiveRecord>(facts.at("collectives"), collective_record_from),
      .leaked = facts.at("leaked").get<std::vector<std::string>>(),
      .began_at = time_from(facts.at("began_at")),
      .ended_at = time_from(facts.at("ended_at"))};
}

json to_json(const PartView& view) {
  return {{"stacks", array_of(view.stacks, rank_json)},
          {"sockets", array_of(view.sockets, socket_json)},
          {"asked", view.asked}};
}

PartView part_view_from(const json& view) {
  return {.stacks = list_from<RankStacks>(view.at("stacks"), rank_from),
          .sockets = list_from<RankSocket>(view.at("sockets"), socket_from),
          .asked = view.at("asked").get<std::vector<int>>()};
}

}  // namespace distrun
