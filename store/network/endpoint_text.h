// Endpoints as the text that a StoreAddress has.  Pure.
#pragma once

#include <string>

#include <boost/asio/ip/tcp.hpp>

namespace distrun {

// An IPv4 address that is written as IPv6, as a socket has it that takes both, becomes what it is.
boost::asio::ip::tcp::endpoint unmapped(const boost::asio::ip::tcp::endpoint& endpoint);

// As StoreAddress::text(), unmapped.
std::string text_of(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace distrun
