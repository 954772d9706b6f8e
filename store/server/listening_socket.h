// The socket at which a store listens: bound here, or taken over from whoever has bound it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "distrun/store_server.h"

namespace distrun {

// Of the options it reads host, port and listen_fd.  Fails as StoreServer::listen() does; then
// listen_fd is still the caller's.
Result<boost::asio::ip::tcp::acceptor> listening_socket(boost::asio::io_context& io,
                                                        const StoreServer::Options& options);

}  // namespace distrun
