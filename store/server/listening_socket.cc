#include "store/server/listening_socket.h"

#include <cerrno>
#include <string>

#include <boost/asio/ip/v6_only.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

#include "store/network/endpoint_text.h"
#include "store/network/port_holder.h"

namespace distrun {

namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

Result<void> take_over(tcp::acceptor& acceptor, int fd) {
  const auto option = [&](int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    return ::getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  const int domain = option(SO_DOMAIN);
  if ((domain != AF_INET && domain != AF_INET6) || option(SO_TYPE) != SOCK_STREAM ||
      option(SO_ACCEPTCONN) != 1) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("file descriptor {} is not a listening TCP socket", fd)};
  }
  error_code error;
  acceptor.assign(domain == AF_INET ? tcp::v4() : tcp::v6(), fd, error);
  if (error) return Error::from_errno(fmt::format("listen on descriptor {}", fd), error.value());
  return {};
}

Result<void> bind_and_listen(tcp::acceptor& acceptor, const StoreServer::Options& options) {
  error_code error;
  const auto address = boost::asio::ip::make_address(options.host, error);
  if (error) {
    return Error{ErrorKind::kInvalidArgument,
                 fmt::format("store host '{}' is not an IPv4 or IPv6 address", options.host)};
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  // Allows a port that the last run just left, even in TIME_WAIT.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && address.is_v6() && address.is_unspecified()) {
    acceptor.set_option(boost::asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) return {};
  if (error.value() == EADDRNOTAVAIL) {
    return Error{ErrorKind::kAddressNotLocal, options.host + " is not an address of this machine"};
  }
  Error failure = Error::from_errno(text_of(endpoint), error.value());
  if (error == boost::asio::error::address_in_use) {
    failure.kind = ErrorKind::kAddressInUse;
    const std::string holder = port_holder(endpoint);
    if (!holder.empty()) failure.message += " by " + holder;
  }
  return failure;
}

}  // namespace

Result<tcp::acceptor> listening_socket(boost::asio::io_context& io,
                                       const StoreServer::Options& options) {
  tcp::acceptor acceptor(io);
  const auto listens = options.listen_fd ? take_over(acceptor, *options.listen_fd)
                                         : bind_and_listen(acceptor, options);
  if (!listens) return listens.error();
  // Accepted sockets inherit these. no_delay: replies leave at once. keep_alive: the server notices
  // a vanished machine.
  error_code ignored;
  acceptor.set_option(tcp::no_delay(true), ignored);
  acceptor.set_option(tcp::socket::keep_alive(true), ignored);
  return acceptor;
}

}  // namespace distrun
