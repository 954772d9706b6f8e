#include "launcher/preflight/node_check.h"

#include <utility>

#include <nlohmann/json.hpp>

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
  return value.is_null() ? std::nullopt : std::optional(value.get<Value>());
}

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

template <class Read>
auto decoded(std::string_view text, Read read) -> Result<decltype(read(json()))> {
  try {
    return read(json::parse(text));
  } catch (const json::exception& error) {
    return Error{ErrorKind::kProtocol, error.what()};
  }
}

}  // namespace

std::string encode(const NodeCheck& report) {
  return dump({{"node", report.node},
               {"host", report.host},
               {"findings", report.findings},
               {"address", report.address},
               {"port", report.port},
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
    return NodeCheck{.node = message.at("node"),
                     .host = message.at("host"),
                     .findings = message.at("findings"),
                     .address = message.at("address"),
                     .port = message.at("port"),
                     .torch = optional_at<std::string>(message, "torch"),
                     .interface = message.at("interface"),
                     .mtu = optional_at<int>(message, "mtu"),
                     .gpus = message.at("gpus"),
                     .variables = message.at("variables")};
  });
}

Result<ReachReport> decode_reach(std::string_view text) {
  return decoded(text, [](const json& message) {
    ReachReport report;
    for (const json& time : message.at("clock")) {
      report.clock.emplace_back(std::chrono::microseconds(time.get<std::int64_t>()));
    }
    for (const json& one : message.at("unreachable")) {
      report.unreachable.push_back({.node = one.at("node"), .problem = one.at("problem")});
    }
    return report;
  });
}

Result<std::vector<Peer>> decode_peers(std::string_view text) {
  return decoded(text, [](const json& message) {
    std::vector<Peer> peers;
    for (const json& one : message) {
      peers.push_back({.rank = one.at("rank"),
                       .node = one.at("node"),
                       .address = one.at("address"),
                       .port = one.at("port")});
    }
    return peers;
  });
}

}  // namespace distrun
