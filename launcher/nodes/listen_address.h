// listen_address finds the address of this machine at which node 0 listens, from --master-addr.
//
//     auto address = listen_address("gpu-0", std::chrono::seconds(10));     // "10.0.0.7"
//
// A numeric address is taken as it is.  Of a name's addresses it is the first that this machine
// has and others can reach; where the name leads to loopback alone, as a machine's own name often
// does in /etc/hosts, all of the machine's ("::" or "0.0.0.0"): the others find it by an address
// that is not known here.
//
// Blocks, for at most `timeout`.  Fails with kNotFound where the name has no address, and kSystem
// where none of them is this machine's: it is not node 0 then.
#pragma once

#include <chrono>
#include <string>

#include "distrun/result.h"

namespace distrun {

Result<std::string> listen_address(const std::string& host, std::chrono::milliseconds timeout);

}  // namespace distrun
