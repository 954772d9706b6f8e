// Names the process that uses a port, for the error of a failed bind().
//
//     // bind(): EADDRINUSE
//     message += port_holder(endpoint);           // "python3 (pid 4711)"
//
// Reads the kernel's table of sockets and /proc, which takes a few milliseconds, more with very
// many processes. Sees only the caller's network namespace.
#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace distrun {

// "python3 (pid 4711)"; "a process of uid 1000" if /proc hides its descriptors, such as another
// user's; empty if unknown.
std::string port_holder(const boost::asio::ip::tcp::endpoint& wanted);

}  // namespace distrun
