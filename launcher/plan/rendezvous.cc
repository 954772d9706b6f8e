#include "launcher/plan/rendezvous.h"

#include <algorithm>

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include "common/text/near_miss.h"
#include "common/text/parse_number.h"
#include "common/text/words.h"
#include "store/network/endpoint_text.h"

namespace distrun {

namespace {

constexpr const char* kLoopback = "127.0.0.1";

Error bad_endpoint(std::string message) {
  return {ErrorKind::kInvalidArgument, std::move(message)};
}

}  // namespace

bool is_host(std::string_view text) {
  const auto belongs = [](unsigned char letter) {
    return std::isalnum(letter) != 0 || letter == '_' || letter == '.' || letter == '-' ||
           letter == ':' || letter == '%';  // fe80::1%eth0
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), belongs);
}

bool is_numeric(const std::string& host) {
  boost::system::error_code error;
  boost::asio::ip::make_address(host, error);
  return !error;
}

bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  if (error) return host == "localhost";
  return unmapped({address, 0}).address().is_loopback();
}

Result<void> check_interface(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address_v6(host, error);
  if (error || !address.is_link_local() || address.scope_id() != 0) return {};
  const std::size_t scope = host.find('%');
  if (scope == std::string::npos) {
    return bad_endpoint(fmt::format(
        "'{0}' is a link-local address; add the interface of this machine that leads to node 0, "
        "as in {0}%eth0",
        host));
  }
  return bad_endpoint(fmt::format(
      "'{}': this machine has no interface '{}'; give the one that leads to node 0 (ip -6 route)",
      host, host.substr(scope + 1)));
}

Result<std::string> parse_host(std::string_view text) {
  std::string_view host = trimmed(text);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!is_host(host))
    return bad_endpoint(fmt::format("'{}' is not a host name or an address", text));
  return std::string(host);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  const std::string_view endpoint = trimmed(text);
  const auto colons = std::count(endpoint.begin(), endpoint.end(), ':');
  const bool bracketed = endpoint.starts_with('[');
  Endpoint parsed;
  std::string_view host = endpoint;
  // An IPv6 address without brackets cannot have a port.
  const bool has_port = bracketed ? !endpoint.ends_with(']') : colons == 1;
  if (has_port) {
    const std::size_t colon = endpoint.rfind(':');
    const auto port = parse_number<std::uint16_t>(endpoint.substr(colon + 1));
    if (!port) return port.error().with_context(fmt::format("the port of '{}'", text));
    parsed.port = *port;
    host = endpoint.substr(0, colon);
  }
  auto name = parse_host(host);
  if (!name) return bad_endpoint(fmt::format("'{}' is not HOST:PORT, as in node7:29500", text));
  parsed.host = std::move(*name);
  return parsed;
}

// torchrun's rendezvous reads these keys; distrun uses only `timeout` and `join_timeout`.
const std::vector<std::string>& rdzv_conf_keys() {
  static const std::vector<std::string> keys = {"timeout",
                                                "join_timeout",
                                                "last_call_timeout",
                                                "close_timeout",
                                                "read_timeout",
                                                "heartbeat_timeout",
                                                "keep_alive_interval",
                                                "keep_alive_max_attempt",
                                                "store_type",
                                                "is_host",
                                                "use_agent_store",
                                                "rank",
                                                "protocol",
                                                "cert",
                                                "key",
                                                "cacert",
                                                "etcd_prefix",
                                                "min_nodes",
                                                "max_nodes",
                                                "local_addr"};
  return keys;
}

Result<std::vector<RdzvConfEntry>> parse_rdzv_conf(std::string_view text) {
  std::vector<RdzvConfEntry> entries;
  if (trimmed(text).empty()) return entries;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t equals = std::min(entry.find('='), entry.size());
    const std::string_view key = trimmed(entry.substr(0, equals));
    const std::string_view value = trimmed(entry.substr(std::min(equals + 1, entry.size())));
    if (key.empty() || value.empty()) {
      return bad_endpoint(fmt::format("'{}' is not KEY=VALUE, as in timeout=900", entry));
    }
    const std::vector<std::string>& known = rdzv_conf_keys();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return bad_endpoint(fmt::format("unknown key '{}'{}", key, did_you_mean(key, known)));
    }
    entries.push_back({key, value});
  }
  return entries;
}

Result<RdzvBackend> parse_rdzv_backend(std::string_view text) {
  if (text == "static") return RdzvBackend::kStatic;
  if (text == "c10d") return RdzvBackend::kC10d;
  if (text.starts_with("etcd")) {
    return bad_endpoint(fmt::format("'{}' is not supported; use static", text));
  }
  return bad_endpoint(fmt::format("'{}' is neither static nor c10d", text));
}

RunRendezvous run_rendezvous(const RendezvousFlags& flags) {
  const auto numeric = [](const std::string& host) {
    return is_numeric(host) ? host : std::string(kLoopback);
  };
  const bool as_static = flags.backend == RdzvBackend::kStatic && !flags.standalone;
  if (as_static && flags.endpoint) {
    return {numeric(flags.endpoint->host), flags.endpoint->port.value_or(0),
            flags.run_id.empty() ? "none" : flags.run_id, "rdzv-endpoint"};
  }
  if (as_static && flags.master_port) {
    return {numeric(flags.master_addr), *flags.master_port,
            flags.run_id.empty() ? "none" : flags.run_id};
  }
  // A random id, or "none" if c10d was asked for, as in torchrun.
  RunRendezvous place{kLoopback, 0, flags.run_id};
  if (!flags.local_addr.empty()) {
    place.address = numeric(flags.local_addr);
    place.flag = "local-addr";
  } else if (as_static) {
    place.address = numeric(flags.master_addr);
  }
  const bool asked_for_c10d = flags.backend == RdzvBackend::kC10d && !flags.standalone;
  if (place.run_id.empty() && asked_for_c10d) place.run_id = "none";
  return place;
}

}  // namespace distrun
