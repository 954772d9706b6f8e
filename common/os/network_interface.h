// Finds the network interface of this machine that has an address, and its address.
//
//     interface_of("10.0.0.3")     // "eth0"
//     interface_of("127.0.0.1")    // nothing: other machines cannot reach it
//     address_of("eth0")           // "10.0.0.3"
#pragma once

#include <optional>
#include <string>

namespace distrun {

// `address` is an IP address, IPv4 or IPv6, without brackets. Empty for loopback interfaces and for
// addresses that this machine does not have.
std::optional<std::string> interface_of(const std::string& address);

// An IP address of the interface, IPv4 if it has one. Also of loopback interfaces.
std::optional<std::string> address_of(const std::string& interface);

}  // namespace distrun
