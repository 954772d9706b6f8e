#include "store/network/look_up.h"

#include <cstring>

#include <netdb.h>

namespace distrun {

using boost::asio::ip::tcp;

Result<ResolvedAddresses> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  ResolvedAddresses endpoints;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    tcp::endpoint endpoint;
    if (at->ai_addrlen > endpoint.capacity()) continue;
    std::memcpy(endpoint.data(), at->ai_addr, at->ai_addrlen);
    endpoint.resize(at->ai_addrlen);
    endpoint.port(port);
    endpoints.push_back(endpoint);
  }
  if (list != nullptr) ::freeaddrinfo(list);
  if (!endpoints.empty()) return endpoints;
  return Error{ErrorKind::kSystem, error == 0 ? "none" : ::gai_strerror(error)};
}

}  // namespace distrun
