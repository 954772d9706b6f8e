#include "launcher/preflight/network_facts.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/os/unique_fd.h"
#include "store/network/look_up.h"

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

// Shared with the thread.
struct OwnNameLookUp::Answer {
  std::mutex mutex;
  std::condition_variable has_come;
  std::optional<NodeFacts::Look> look;
};

OwnNameLookUp::OwnNameLookUp(const std::string& name)
    : answer_(std::make_shared<Answer>()),
      deadline_(std::chrono::steady_clock::now() + kNameLookUpMax) {
  std::thread([answer = answer_, name] {
    const bool found = look_up(name, 0).has_value();
    const std::lock_guard lock(answer->mutex);
    answer->look = found ? NodeFacts::Look::kFound : NodeFacts::Look::kNotFound;
    answer->has_come.notify_one();
  }).detach();
}

NodeFacts::Look OwnNameLookUp::result() {
  std::unique_lock lock(answer_->mutex);
  answer_->has_come.wait_until(lock, deadline_, [this] { return answer_->look.has_value(); });
  return answer_->look.value_or(NodeFacts::Look::kSlow);
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

std::optional<std::string> address_of_interface(const std::string& interface) {
  std::optional<std::string> found;
  const InterfaceList all = addresses_of_interfaces();
  for (const ifaddrs* one = all.get(); one != nullptr; one = one->ifa_next) {
    if (interface != one->ifa_name || !is_ip(*one)) continue;
    const bool is_v4 = one->ifa_addr->sa_family == AF_INET;
    if (found && !is_v4) continue;
    char text[INET6_ADDRSTRLEN] = "";
    const void* bytes =
        is_v4 ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(one->ifa_addr)->sin_addr)
              : &reinterpret_cast<sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    if (::inet_ntop(one->ifa_addr->sa_family, bytes, text, sizeof(text)) != nullptr) found = text;
    if (is_v4) return found;
  }
  return found;
}

}  // namespace distrun
