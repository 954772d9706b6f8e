#include "distrun/store_address.h"

#include <fmt/format.h>

#include "common/text/parse_number.h"

namespace distrun {

std::string StoreAddress::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<StoreAddress> parse_store_address(std::string_view text) {
  const Error malformed{
      ErrorKind::kInvalidArgument,
      fmt::format("'{}' is not HOST:PORT, as in 127.0.0.1:29500 or [::1]:29500", text)};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return malformed;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed;
  }
  const auto port = parse_number<std::uint16_t>(text.substr(colon + 1), 1);
  if (host.empty() || !port) return malformed;
  return StoreAddress{std::string(host), *port};
}

}  // namespace distrun
