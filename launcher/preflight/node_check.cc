#include "launcher/preflight/node_check.h"

#include <exception>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "common/text/json_number.h"

namespace distrun {

namespace {

using nlohmann::json;

// Values of variables may not be UTF-8.
std::string dump(const json& message) {
  return message.dump(/*indent=*/-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
}

template <class Value>
std::optional<Value> optional_at(const json& message, const char* name) {
  const json& value = message.at(name);
  if (value.is_null()) return std::nullopt;
  if constexpr (std::is_integral_v<Value>) {
    return required_number<Value>(value);
  } else {
    return value.get<Value>();
  }
}

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

template <class Read>
auto decoded(std::string_view text, Read read) -> Result<decltype(read(json()))> {
  try {
    return read(json::parse(text));
  } catch (const std::exception& error) {  // Of JSON, or a number out of its range.
    return Error{ErrorKind::kProtocol, error.what()};
  }
}

}  // namespace

std::string encode(const NodeCheck& report) {
  return dump({{"node", report.node},
               {"host", report.host},
               {"findings", report.findings},
               {"address", report.address},
               {"torch", or_null(report.torch)},
               {"interface", report.interface},
               {"mtu", or_null(report.mtu)},
               {"gpus", report.gpus},
               {"variables", report.variables}});
}

std::string encode(const ReachReport& report) {
  json message = {{"clock", json::array()}, {"unreachable", json::array()}};
  for (const WallTime time : report.clock) {
    message["clock"].push_back(time.time_since_epoch().count());
  }
  for (const Unreachable& one : report.unreachable) {
    message["unreachable"].push_back({{"node", one.node}, {"problem", one.problem}});
  }
  return dump(message);
}

std::string encode(const std::vector<Peer>& peers) {
  json message = json::array();
  for (const Peer& peer : peers) {
    message.push_back(
        {{"rank", peer.rank}, {"node", peer.node}, {"address", peer.address}, {"port", peer.port}});
  }
  return dump(message);
}

Result<NodeCheck> decode_check(std::string_view text) {
  return decoded(text, [](const json& message) {
    return NodeCheck{.node = required_number<int>(message.at("node")),
                     .host = message.at("host"),
                     .findings = message.at("findings"),
                     .address = message.at("address"),
                     .torch = optional_at<std::string>(message, "torch"),
                     .interface = message.at("interface"),
                     .mtu = optional_at<int>(message, "mtu"),
                     .gpus = required_number<int>(message.at("gpus")),
                     .variables = message.at("variables")};
  });
}

Result<ReachReport> decode_reach(std::string_view text) {
  return decoded(text, [](const json& message) {
    ReachReport report;
    for (const json& time : message.at("clock")) {
      report.clock.emplace_back(std::chrono::microseconds(required_number<std::int64_t>(time)));
    }
    for (const json& one : message.at("unreachable")) {
      report.unreachable.push_back(
          {.node = required_number<int>(one.at("node")), .problem = one.at("problem")});
    }
    return report;
  });
}

Result<std::vector<Peer>> decode_peers(std::string_view text) {
  return decoded(text, [](const json& message) {
    std::vector<Peer> peers;
    for (const json& one : message) {
      peers.push_back({.rank = required_number<int>(one.at("rank")),
                       .node = required_number<int>(one.at("node")),
                       .address = one.at("address"),
                       .port = required_number<std::uint16_t>(one.at("port"))});
    }
    return peers;
  });
}

}  // namespace distrun
