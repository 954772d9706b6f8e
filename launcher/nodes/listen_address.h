// listen_address finds the local address at which node 0 listens, from --master-addr.
//
//     auto address = listen_address("gpu-0", std::chrono::seconds(10));     // "10.0.0.7"
//
// For a name, it is the first of its addresses that this machine has and others can reach. If the
// name resolves only to loopback, as a machine's own name often does, it is all addresses ("::" or
// "0.0.0.0").
//
// Blocks up to `timeout`. Fails with kNotFound if the name has no address, and kSystem if none
// belongs to this machine.
#pragma once

#include <chrono>
#include <string>

#include "distrun/result.h"

namespace distrun {

Result<std::string> listen_address(const std::string& host, std::chrono::milliseconds timeout);

}  // namespace distrun
