// Makes the socket at which a store listens: binds one, or takes over a descriptor.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "distrun/store_server.h"

namespace distrun {

// Reads the options host, port and listen_fd. Fails like StoreServer::listen(), and leaves
// listen_fd with the caller.
Result<boost::asio::ip::tcp::acceptor> listening_socket(boost::asio::io_context& io,
                                                        const StoreServer::Options& options);

}  // namespace distrun
