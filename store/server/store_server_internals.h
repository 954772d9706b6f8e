// StoreServerInternals is what only distrun itself does with a StoreServer: the nodes of a run talk
// on the port of the workers' store, and tests look at the table.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "distrun/store_server.h"
#include "store/table/table.h"

namespace distrun {

struct StoreServerInternals {
  // Is given the connections that begin with kNodeGreeting (protocol/request.h), with what has
  // come behind that byte.  They are the store's no more: start_over() and the end of the server
  // leave them.
  using TakeNode = std::function<void(boost::asio::ip::tcp::socket socket, std::string received)>;

  // As StoreServer::listen().  If `take_node` is empty, nodes are refused.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     const StoreServer::Options& options,
                                                     TakeNode take_node);

  static const StoreTable& table(const StoreServer& server);
};

}  // namespace distrun
