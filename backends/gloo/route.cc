#include "backends/gloo/route.h"

#include <array>
#include <memory>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/os/unique_fd.h"

namespace distrun::internal {

namespace {

bool is_loopback(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& in = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(in.sin_addr.s_addr) >> 24) == 127;
  }
  const auto& in = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&in) && in.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&in) || is_mapped;
}

// Connecting a datagram socket queries the routing table and sends nothing.
std::optional<std::string> address_towards(const addrinfo& host) {
  const UniqueFd fd(::socket(host.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  if (!fd || ::connect(fd.get(), host.ai_addr, host.ai_addrlen) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0 || is_loopback(own)) {
    return std::nullopt;
  }
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&own), size, text.data(), text.size(),
                    nullptr, 0, NI_NUMERICHOST) != 0) {
    return std::nullopt;
  }
  return std::string(text.data());
}

}  // namespace

std::optional<std::string> address_towards(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) {
    return std::nullopt;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, ::freeaddrinfo);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    if (auto address = address_towards(*one)) return address;
  }
  return std::nullopt;
}

}  // namespace distrun::internal
