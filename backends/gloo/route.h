// Which address of this machine other machines can connect to.
//
//     address_towards("10.0.0.7", 29500)      // "10.0.0.3", if packets to there leave from it
//     address_towards("localhost", 29500)     // nothing
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace distrun::internal {

// The numeric address from which packets to `host` leave.  Nothing if the host is this machine by a
// loopback address, is not known, or cannot be reached.
// Blocks: while the name is looked up.  Sends nothing to the host.
std::optional<std::string> address_towards(const std::string& host, std::uint16_t port);

}  // namespace distrun::internal
