// The part of StoreServer that only distrun uses: nodes of a run share the store's port, node 0
// checks keys until the run starts, and tests read the table.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "distrun/store_server.h"
#include "store/table/table.h"

namespace distrun {

struct StoreServerInternals {
  // Takes each connection that starts with kNodeGreeting (protocol/request.h), with the bytes
  // received after it. The store forgets these connections: neither start_over() nor the destructor
  // closes them.
  using TakeNode = std::function<void(boost::asio::ip::tcp::socket socket, std::string received)>;

  // Gets the first key of each request, before the request is served. An error: the client is
  // refused. False: the store does not ask again, so that later requests cost nothing. It must not
  // call the server.
  using CheckKey = std::function<Result<bool>(const boost::asio::ip::tcp::endpoint& client,
                                              std::string_view key)>;

  // Like StoreServer::listen().  If `take_node` is empty, nodes are refused.
  static Result<std::unique_ptr<StoreServer>> listen(boost::asio::io_context& io,
                                                     const StoreServer::Options& options,
                                                     TakeNode take_node, CheckKey check_key = {});

  static const StoreTable& table(const StoreServer& server);
};

}  // namespace distrun
