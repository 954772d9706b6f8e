#include "backends/gloo/gloo_address.h"

#include <cstdlib>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backends/gloo/route.h"

namespace distrun::internal {

std::optional<std::string> gloo_address(const c10::intrusive_ptr<c10d::Store>& store) {
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces != nullptr && *interfaces != '\0') return std::nullopt;
  auto* prefix = dynamic_cast<c10d::PrefixStore*>(store.get());
  const auto below = prefix == nullptr ? store : prefix->getUnderlyingNonPrefixStore();
  const auto* tcp = dynamic_cast<c10d::TCPStore*>(below.get());
  return tcp == nullptr ? std::nullopt : address_towards(tcp->getHost(), tcp->getPort());
}

}  // namespace distrun::internal
