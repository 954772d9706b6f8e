#include "store/server/store_admission.h"

#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace distrun {

using boost::asio::ip::tcp;

Result<StoreAdmission> StoreAdmission::open(const StoreServer::Options& options) {
  StoreAdmission admission(options.limits.connections_max);
  if (options.same_user) {
    auto sockets = LocalSockets::open();
    if (!sockets) return sockets.error();
    admission.local_sockets_ = std::move(*sockets);
  }
  return admission;
}

Result<void> StoreAdmission::check(const tcp::socket& socket, const tcp::endpoint& remote,
                                   std::size_t connections) {
  if (connections >= connections_max_) {
    return Error{ErrorKind::kProtocol,
                 fmt::format("{} connections are open: no more are allowed", connections_max_)};
  }
  if (local_sockets_) return check_user(socket, remote);
  return {};
}

Result<void> StoreAdmission::check_user(const tcp::socket& socket, const tcp::endpoint& remote) {
  boost::system::error_code error;
  const tcp::endpoint own = socket.local_endpoint(error);
  if (error) return Error::from_errno("its socket", error.value());
  const auto found = local_sockets_->find(remote, own);
  if (!found) return found.error();
  if (!*found) {
    return Error{ErrorKind::kProtocol, "it is not a running process of this machine"};
  }
  const uid_t uid = (*found)->uid;
  if (uid == ::geteuid() || uid == 0) return {};
  return Error{ErrorKind::kProtocol, fmt::format("it belongs to uid {}", uid)};
}

}  // namespace distrun
