// Endpoints as text, in the form of StoreAddress.  Pure.
#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace distrun {

// An IPv4-mapped IPv6 address, as a dual-stack socket reports it, becomes an IPv4 address.
boost::asio::ip::tcp::endpoint unmapped(const boost::asio::ip::tcp::endpoint& endpoint);

// Like StoreAddress::text(), of the unmapped address.
std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace distrun
