// Finds an address of this machine that other machines can reach.
//
//     address_towards("10.0.0.7", 29500)      // "10.0.0.3", if packets to there leave from it
//     address_towards("localhost", 29500)     // nothing
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace distrun::internal {

// The IP address from which packets to `host` leave. Empty if that is a loopback address, or
// if the host is unknown or unreachable. Sends nothing to the host. Blocks: while the name is
// looked up.
std::optional<std::string> address_towards(const std::string& host, std::uint16_t port);

}  // namespace distrun::internal
