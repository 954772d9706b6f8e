// Endpoints as text, in the form of StoreAddress.  Pure.
#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace distrun {

// IPv4-mapped IPv6 addresses, which a dual-stack socket reports, become IPv4 addresses.
boost::asio::ip::tcp::endpoint unmapped(const boost::asio::ip::tcp::endpoint& endpoint);

// Like StoreAddress::text(), after unmapped().
std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace distrun
