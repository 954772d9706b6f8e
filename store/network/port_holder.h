// Who has a port of this machine, for the error of one who wanted it.
//
//     // bind() said EADDRINUSE
//     message += port_holder(endpoint);           // "python3 (pid 4711)"
//
// Looks through the kernel's sockets, and through /proc until it has found the process: a matter of
// milliseconds, more where there are very many processes.  Sees the caller's own network namespace.
#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace distrun {

// "python3 (pid 4711)"; "a process of uid 1000" where its descriptors may not be looked at, as
// those of another user; empty where nothing is known.
std::string port_holder(const boost::asio::ip::tcp::endpoint& wanted);

}  // namespace distrun
