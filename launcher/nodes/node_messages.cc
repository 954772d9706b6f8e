#include "launcher/nodes/node_messages.h"

#include <csignal>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/text/json_number.h"
#include "common/text/text_cut.h"
#include "launcher/plan/several_nodes.h"

namespace distrun {

namespace {

using MessageJson = nlohmann::json;

// Keeps a message within its limit even if JSON writes six bytes for each byte.
constexpr std::size_t kHeadlineBytesMax = kKiB, kDetailsBytesMax = 7 * kKiB;
constexpr int kCountMax = 1 << 24;

std::string cut(const std::string& text, std::size_t bytes_max) {
  return std::string(cut_to_bytes(text, bytes_max));
}

std::string cut_to_lines(const std::string& text, std::size_t bytes_max) {
  const std::string kept = cut(text, bytes_max);
  return kept.size() == text.size() ? kept : kept.substr(0, kept.rfind('\n') + 1);
}

MessageJson json_of(const NodesVerdict& verdict) {
  return {{"status", verdict.status},
          {"node", verdict.node},
          {"host", cut(verdict.host, kNodeNameBytesMax)},
          {"headline", cut(verdict.headline, kHeadlineBytesMax)},
          {"details", cut_to_lines(verdict.details, kDetailsBytesMax)},
          {"notes", cut_to_lines(verdict.notes, kHeadlineBytesMax)},
          {"signal", verdict.signal},
          {"is_of_node_0", verdict.is_of_node_0}};
}

struct ToJson {
  MessageJson operator()(const JoinRequest& m) const {
    return {{"type", "join"},
            {"protocol", m.protocol},
            {"command", cut(m.command, kNodeNameBytesMax)},
            {"run_id", cut(m.run_id, kNodeNameBytesMax)},
            {"node", m.node},
            {"nodes", m.nodes},
            {"workers", m.workers},
            {"max_restarts", m.max_restarts},
            {"hang_after_ms", m.hang_after_ms},
            {"heartbeat_ms", m.heartbeat_ms},
            {"records", m.records},
            {"role", cut(m.role, kNodeNameBytesMax)},
            {"host", cut(m.host, kNodeNameBytesMax)}};
  }
  MessageJson operator()(const JoinAccepted& m) const {
    return {{"type", "accepted"}, {"host", cut(m.host, kNodeNameBytesMax)}};
  }
  MessageJson operator()(const JoinRefused& m) const {
    return {{"type", "refused"}, {"reason", cut(m.reason, kDetailsBytesMax)}};
  }
  MessageJson operator()(const NodeFailed& m) const {
    return {{"type", "failed"},
            {"attempt", m.attempt},
            {"may_restart", m.may_restart},
            {"verdict", json_of(m.verdict)}};
  }
  MessageJson operator()(const NodeQuiet& m) const {
    return {{"type", "quiet"}, {"attempt", m.attempt}, {"is_quiet", m.is_quiet}};
  }
  MessageJson operator()(const NodeSucceeded& m) const {
    return {{"type", "succeeded"}, {"attempt", m.attempt}};
  }
  MessageJson operator()(const NodeStopped& m) const {
    return {{"type", "stopped"}, {"attempt", m.attempt}};
  }
  MessageJson operator()(const StartNode& m) const {
    return {{"type", "start"},
            {"attempt", m.attempt},
            {"rank_base", m.rank_base},
            {"world_size", m.world_size},
            {"role_rank_base", m.role_rank_base},
            {"role_world_size", m.role_world_size}};
  }
  MessageJson operator()(const StopNode& m) const {
    return {{"type", "stop"},
            {"attempt", m.attempt},
            {"is_last", m.is_last},
            {"verdict", json_of(m.verdict)}};
  }
  MessageJson operator()(const FinishNode& m) const {
    return {{"type", "finish"}, {"verdict", json_of(m.verdict)}};
  }
  MessageJson operator()(const NodeOperations& m) const { return distrun::json_of(m); }
  MessageJson operator()(const RankFlight& m) const { return distrun::json_of(m); }
  MessageJson operator()(const AskTime& m) const {
    return {{"type", "ask_time"}, {"question", m.question}};
  }
  MessageJson operator()(const TellTime& m) const {
    return {
        {"type", "time"}, {"question", m.question}, {"time", m.time.time_since_epoch().count()}};
  }
  MessageJson operator()(const NodeText& m) const {
    return {{"type", "text"}, {"piece", m.piece}, {"is_last", m.is_last}};
  }
};

int number(const MessageJson& object, const char* name, int min, int max = kCountMax) {
  const MessageJson& member = object.at(name);
  if (!member.is_number_integer()) throw std::out_of_range(fmt::format("{} is not a number", name));
  const auto value = member.get<std::int64_t>();
  if (value < min || value > max) {
    throw std::out_of_range(fmt::format("{} is {}, not from {} to {}", name, value, min, max));
  }
  return static_cast<int>(value);
}

std::string text(const MessageJson& object, const char* name) {
  return object.at(name).get<std::string>();
}

NodesVerdict verdict_from(const MessageJson& message) {
  const MessageJson& object = message.at("verdict");
  return {.status = number(object, "status", 0, 255),
          .node = number(object, "node", 0),
          .host = text(object, "host"),
          .headline = text(object, "headline"),
          .details = text(object, "details"),
          .notes = text(object, "notes"),
          .signal = number(object, "signal", 0, SIGRTMAX),
          .is_of_node_0 = object.at("is_of_node_0").get<bool>()};
}

StartNode start_from(const MessageJson& object) {
  StartNode start{.attempt = number(object, "attempt", 0),
                  .rank_base = 0,
                  .world_size = number(object, "world_size", 1),
                  .role_rank_base = 0,
                  .role_world_size = number(object, "role_world_size", 1)};
  start.rank_base = number(object, "rank_base", 0, start.world_size - 1);
  start.role_rank_base = number(object, "role_rank_base", 0, start.role_world_size - 1);
  return start;
}

// Of another protocol, reads only the version, so that the request gets a clear answer.
JoinRequest join_from(const MessageJson& object) {
  JoinRequest join{.protocol = number(object, "protocol", 0)};
  if (join.protocol != kNodeProtocol) return join;
  join.command = text(object, "command");
  join.run_id = text(object, "run_id");
  join.node = number(object, "node", 0);
  join.nodes = number(object, "nodes", 1);
  join.workers = number(object, "workers", 1, 1 << 16);
  join.max_restarts = number(object, "max_restarts", 0);
  join.hang_after_ms = number(object, "hang_after_ms", 0, std::numeric_limits<int>::max());
  join.heartbeat_ms = number(object, "heartbeat_ms", 0, std::numeric_limits<int>::max());
  join.records = text(object, "records");
  join.role = text(object, "role");
  join.host = text(object, "host");
  return join;
}

TellTime time_from(const MessageJson& object) {
  const OperationTime time{
      std::chrono::nanoseconds(required_number<std::int64_t>(object.at("time")))};
  if (time < OperationTime() || time > kOperationTimeMax) {
    throw std::out_of_range("time is not from 1970 to 2116");
  }
  return {required_number<std::int64_t>(object.at("question")), time};
}

NodeMessage message_from(const MessageJson& object) {
  const std::string type = text(object, "type");
  const auto attempt = [&] { return number(object, "attempt", 0); };
  if (type == "join") return join_from(object);
  if (type == "accepted") return JoinAccepted{text(object, "host")};
  if (type == "refused") return JoinRefused{text(object, "reason")};
  if (type == "failed") {
    return NodeFailed{attempt(), object.at("may_restart").get<bool>(), verdict_from(object)};
  }
  if (type == "quiet") return NodeQuiet{attempt(), object.at("is_quiet").get<bool>()};
  if (type == "succeeded") return NodeSucceeded{attempt()};
  if (type == "stopped") return NodeStopped{attempt()};
  if (type == "start") return start_from(object);
  if (type == "stop") {
    return StopNode{attempt(), object.at("is_last").get<bool>(), verdict_from(object)};
  }
  if (type == "finish") return FinishNode{verdict_from(object)};
  if (type == "operations") return node_operations_from(object);
  if (type == "flight") return rank_flight_from(object);
  if (type == "ask_time") return AskTime{required_number<std::int64_t>(object.at("question"))};
  if (type == "time") return time_from(object);
  if (type == "text") return NodeText{text(object, "piece"), object.at("is_last").get<bool>()};
  throw std::out_of_range("unknown message type '" + type + "'");
}

template <class Variant>
NodeMessage widened(const Variant& some) {
  return std::visit([](const auto& message) -> NodeMessage { return message; }, some);
}

}  // namespace

NodeMessage message_of(const NodeReport& report) { return widened(report); }
NodeMessage message_of(const NodeOrder& order) { return widened(order); }

std::string to_line(const NodeMessage& message) {
  // Output of workers may not be UTF-8.
  return std::visit(ToJson{}, message).dump(-1, ' ', false, MessageJson::error_handler_t::replace) +
         "\n";
}

Result<NodeMessage> node_message_from(std::string_view line) {
  try {
    return message_from(MessageJson::parse(line));
  } catch (const std::exception& error) {
    return Error{ErrorKind::kProtocol, std::string("not a message of a node: ") + error.what()};
  }
}

}  // namespace distrun
