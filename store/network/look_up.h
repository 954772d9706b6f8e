// The addresses of a name, by the machine's own ways (/etc/hosts, DNS).  Blocks for as long as
// those take, which nothing bounds: for a thread of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"

namespace distrun {

// At least one.
using ResolvedAddresses = std::vector<boost::asio::ip::tcp::endpoint>;

// Each with `port`.  Fails with kSystem.
Result<ResolvedAddresses> look_up(const std::string& host, std::uint16_t port);

}  // namespace distrun
