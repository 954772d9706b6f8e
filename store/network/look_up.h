// Resolves a host's name with the system resolver (/etc/hosts, DNS).  Blocks without a timeout:
// call it in its own thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"

namespace distrun {

// Never empty.
using ResolvedAddresses = std::vector<boost::asio::ip::tcp::endpoint>;

// Each address gets `port`.  Fails with kSystem.
Result<ResolvedAddresses> look_up(const std::string& host, std::uint16_t port);

}  // namespace distrun
