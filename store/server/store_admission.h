// StoreAdmission decides which clients may connect to a store.
//
//     auto admission = StoreAdmission::open(options);
//     if (!admission) return admission.error();
//     if (auto admitted = admission->check(socket, remote, connections); !admitted) refuse(…);
#pragma once

#include <cstddef>
#include <optional>

#include <boost/asio/ip/tcp.hpp>

#include "distrun/result.h"
#include "distrun/store_server.h"
#include "store/network/local_peer.h"

namespace distrun {

class StoreAdmission {
 public:
  // Reads the options limits.connections_max and same_user.  Fails with kSystem if the kernel
  // cannot report a socket's owner.
  static Result<StoreAdmission> open(const StoreServer::Options& options);

  // Checks a new client; `connections` others are open. The error says why it is refused.
  Result<void> check(const boost::asio::ip::tcp::socket& socket,
                     const boost::asio::ip::tcp::endpoint& remote, std::size_t connections);

 private:
  explicit StoreAdmission(std::size_t connections_max) : connections_max_(connections_max) {}
  Result<void> check_user(const boost::asio::ip::tcp::socket& socket,
                          const boost::asio::ip::tcp::endpoint& remote);

  std::size_t connections_max_;
  std::optional<LocalSockets> local_sockets_;  // Set if `same_user` is.
};

}  // namespace distrun
