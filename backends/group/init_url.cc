#include "backends/group/init_url.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/text/file_url.h"
#include "common/text/parse_number.h"

namespace distrun::internal {

namespace {

constexpr std::string_view kTcp = "tcp://", kFile = "file://", kEnv = "env://";

Error malformed(std::string_view text, const std::string& problem) {
  return {ErrorKind::kInvalidArgument,
          "'" + std::string(text) + "' " + problem +
              "; supported are env://, tcp://HOST:PORT and file:///absolute/path"};
}

// "10.1.1.20:23456" or "[::1]:23456". Returns the problem, or an empty text.
std::string read_address(std::string_view text, InitUrl& url) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || text.ends_with(']')) return "has no port";
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return "has an IPv6 address without brackets";
  }
  if (host.empty()) return "has no host";
  if (host.find('/') != std::string_view::npos) return "has a path";
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1), 1, 65535);
  if (!port) return "has a wrong port: " + port.error().message;
  url.host = host;
  url.port = *port;
  return "";
}

// "rank=0&world_size=4"
std::string read_parameters(std::string_view text, InitUrl& url) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    const std::string_view name = one.substr(0, equals);
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    if (name == "use_libuv") continue;
    if (name != "rank" && name != "world_size") {
      return "has an unknown parameter '" + std::string(name) + "'; known are rank and world_size";
    }
    const auto number = parse_number<int>(value, 0, std::numeric_limits<int>::max());
    if (!number) return "has a wrong " + std::string(name) + ": " + number.error().message;
    auto& target = name == "rank" ? url.rank : url.world_size;
    if (target) return "has the parameter '" + std::string(name) + "' twice";
    target = *number;
  }
  return "";
}

}  // namespace

Result<InitUrl> parse_init_url(std::string_view text) {
  const std::size_t end = std::min(text.find('?'), text.size());
  const std::string_view place = text.substr(0, end);
  InitUrl url;
  std::string problem = read_parameters(text.substr(std::min(end + 1, text.size())), url);
  if (!problem.empty()) return malformed(text, problem);
  if (place == kEnv) return url;
  if (place.starts_with(kTcp)) {
    url.scheme = InitUrl::Scheme::kTcp;
    std::string_view address = place.substr(kTcp.size());
    if (address.ends_with('/')) address.remove_suffix(1);
    problem = read_address(address, url);
    if (!problem.empty()) return malformed(text, problem);
    return url;
  }
  if (!place.starts_with(kFile)) return malformed(text, "is not an init_method");
  auto path = path_of_file_url(place);
  if (!path) return malformed(text, "names no file: " + path.error().message);
  url.scheme = InitUrl::Scheme::kFile;
  url.path = std::move(*path);
  return url;
}

}  // namespace distrun::internal
