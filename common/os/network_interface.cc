#include "common/os/network_interface.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace distrun {

namespace {

std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) != nullptr ? text.data()
                                                                                     : "";
}

using InterfaceAddresses = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

InterfaceAddresses all_addresses() {
  ifaddrs* first = nullptr;
  return {::getifaddrs(&first) == 0 ? first : nullptr, ::freeifaddrs};
}

bool is_ip(const ifaddrs& one) {
  return one.ifa_addr != nullptr &&
         (one.ifa_addr->sa_family == AF_INET || one.ifa_addr->sa_family == AF_INET6);
}

}  // namespace

std::optional<std::string> interface_of(const std::string& address) {
  // Several interfaces may have the same link-local address: "fe80::1%eth0" is that of eth0.
  const std::size_t scope = std::min(address.find('%'), address.size());
  const std::string_view plain = std::string_view(address).substr(0, scope);
  const InterfaceAddresses all = all_addresses();
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (!is_ip(*one) || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (scope < address.size() && address.substr(scope + 1) != one->ifa_name) continue;
    if (text_of(one->ifa_addr) == plain) return one->ifa_name;
  }
  return std::nullopt;
}

std::optional<std::string> address_of(const std::string& interface) {
  std::optional<std::string> found;
  const InterfaceAddresses all = all_addresses();
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (interface != one->ifa_name || !is_ip(*one)) continue;
    const bool is_v4 = one->ifa_addr->sa_family == AF_INET;
    if (!found || is_v4) found = text_of(one->ifa_addr);
    if (is_v4) return found;
  }
  return found;
}

}  // namespace distrun
