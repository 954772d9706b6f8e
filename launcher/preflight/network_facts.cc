#include "launcher/preflight/network_facts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/os/unique_fd.h"

namespace distrun {

namespace {

using InterfaceList = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

InterfaceList addresses_of_interfaces() {
  ifaddrs* first = nullptr;
  return {::getifaddrs(&first) == 0 ? first : nullptr, ::freeifaddrs};
}

bool is_ip(const ifaddrs& one) {
  return one.ifa_addr != nullptr &&
         (one.ifa_addr->sa_family == AF_INET || one.ifa_addr->sa_family == AF_INET6);
}

}  // namespace

OwnNameLookUp::OwnNameLookUp(const std::string& name)
    : deadline_(std::chrono::steady_clock::now() + kNameLookUpMax),
      look_up_(io_, name, 0, [this](const Result<ResolvedAddresses>& found) {
        look_ = found ? NodeFacts::Look::kFound : NodeFacts::Look::kNotFound;
      }) {}

NodeFacts::Look OwnNameLookUp::result() {
  io_.run_until(deadline_);
  return look_;
}

std::vector<InterfaceFacts> network_interfaces() {
  std::map<std::string, InterfaceFacts> found;
  const InterfaceList all = addresses_of_interfaces();
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    InterfaceFacts& facts = found[one->ifa_name];
    facts.name = one->ifa_name;
    constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
    facts.is_up = (one->ifa_flags & kUp) == kUp;
    facts.has_address = facts.has_address || is_ip(*one);
  }
  std::vector<InterfaceFacts> interfaces;
  interfaces.reserve(found.size());
  for (auto& [name, facts] : found) interfaces.push_back(std::move(facts));
  return interfaces;
}

std::optional<int> mtu_of(const std::string& interface) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (!socket || interface.size() >= sizeof(request.ifr_name)) return std::nullopt;
  std::copy(interface.begin(), interface.end(), std::begin(request.ifr_name));
  if (::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) return std::nullopt;
  return request.ifr_mtu;
}

}  // namespace distrun
