#include "testsuites/harness/protocol/host_messages.h"

#include <nlohmann/json.hpp>

#include "common/text/json_bytes.h"
#include "common/text/json_number.h"
#include "testsuites/harness/protocol/process_end_json.h"

namespace distrun {

namespace {

std::string packet_of(const nlohmann::json& message) {
  const auto bytes = nlohmann::json::to_cbor(message);
  return {bytes.begin(), bytes.end()};
}

nlohmann::json to_json(const HostReady&) { return {{"message", "ready"}}; }
nlohmann::json to_json(const RankForked& forked) {
  return {{"message", "forked"},
          {"key", forked.key},
          {"pid", forked.pid},
          {"at", forked.at.time_since_epoch().count()}};
}
nlohmann::json to_json(const RankNotForked& not_forked) {
  return {{"message", "not_forked"}, {"key", not_forked.key}, {"problem", not_forked.problem}};
}
nlohmann::json to_json(const RankEnded& ended) {
  return {{"message", "ended"}, {"key", ended.key}, {"end", end_json(ended.end)}};
}

FromHost from_host(const nlohmann::json& message) {
  const auto what = message.at("message").get<std::string>();
  if (what == "ready") return HostReady{};
  const auto key = required_number<std::uint64_t>(message.at("key"));
  if (what == "forked") {
    const std::chrono::microseconds at(required_number<std::int64_t>(message.at("at")));
    return RankForked{key, required_number<pid_t>(message.at("pid")), WallTime(at)};
  }
  if (what == "not_forked") return RankNotForked{key, message.at("problem").get<std::string>()};
  if (what == "ended") return RankEnded{key, end_from(message.at("end"))};
  throw std::runtime_error("unknown message '" + what + "'");
}

ToHost to_host(const nlohmann::json& message) {
  ForkRank fork{.key = required_number<std::uint64_t>(message.at("key")),
                .test = message.at("test").get<std::string>(),
                .mark = message.at("mark").get<std::string>(),
                .folder = text_of_bytes(message.at("folder")),
                .fresh = message.at("fresh").get<bool>()};
  for (const nlohmann::json& variable : message.at("variables")) {
    fork.variables[text_of_bytes(variable.at(0))] = text_of_bytes(variable.at(1));
  }
  for (const nlohmann::json& word : message.at("under")) fork.under.push_back(text_of_bytes(word));
  return fork;
}

Error not_understood(const std::string& why) {
  return {ErrorKind::kInvalidArgument, "malformed message: " + why};
}

template <class Parse>
auto parse_packet(const std::string& packet, std::size_t descriptors, const Parse& parse)
    -> Result<decltype(parse(nlohmann::json()))> {
  try {
    auto message = parse(nlohmann::json::from_cbor(packet));
    return message;
  } catch (const std::exception& error) {
    return not_understood(error.what() + std::string(", with ") + std::to_string(descriptors) +
                          " descriptors");
  }
}

}  // namespace

std::string to_packet(const ToHost& message) {
  nlohmann::json fork = {{"key", message.key},
                         {"test", message.test},
                         {"mark", message.mark},
                         {"folder", json_bytes(message.folder)},
                         {"fresh", message.fresh},
                         {"variables", nlohmann::json::array()},
                         {"under", nlohmann::json::array()}};
  for (const auto& [name, value] : message.variables) {
    fork["variables"].push_back({json_bytes(name), json_bytes(value)});
  }
  for (const std::string& word : message.under) fork["under"].push_back(json_bytes(word));
  return packet_of(fork);
}

std::string to_packet(const FromHost& message) {
  return packet_of(std::visit([](const auto& some) { return to_json(some); }, message));
}

Result<ToHost> parse_to_host(const std::string& packet, std::size_t descriptors) {
  auto message = parse_packet(packet, descriptors, to_host);
  if (message && descriptors != ForkRank::kDescriptors)
    return not_understood("wrong number of descriptors");
  return message;
}

Result<FromHost> parse_from_host(const std::string& packet, std::size_t descriptors) {
  auto message = parse_packet(packet, descriptors, from_host);
  if (!message) return message;
  const auto wanted = std::visit([](const auto& some) { return some.kDescriptors; }, *message);
  if (descriptors != wanted) return not_understood("wrong number of descriptors");
  return message;
}

}  // namespace distrun
