// listen_address finds the local address at which node 0 listens, from --master-addr.
//
//     auto address = listen_address("--master-addr", "gpu-0", std::chrono::seconds(10));
//     // "10.0.0.7"
//
// For a name, it is the first of its addresses that this machine has and others can reach. If the
// name resolves only to loopback, as a machine's own name often does, it is all addresses ("::" or
// "0.0.0.0"). If the name does not resolve, but begins with the name of this machine and a dot, the
// latter is resolved instead: the name of a Kubernetes pod may enter DNS only later.
//
// `flag` is what gave the host, for messages.
//
// Blocks up to `timeout`. Fails with kNotFound if the name has no address, and kSystem if no
// address belongs to this machine.
#pragma once

#include <chrono>
#include <string>

#include "distrun/result.h"

namespace distrun {

Result<std::string> listen_address(const std::string& flag, const std::string& host,
                                   std::chrono::milliseconds timeout);

}  // namespace distrun
