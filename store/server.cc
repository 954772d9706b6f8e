#include "store/server.h"

#include <array>
#include <chrono>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>
#include <sys/socket.h>

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kReadBytes =
    64 * kKiB;  // At once, of one connection, before others get a turn.
constexpr auto kAcceptPause =
    std::chrono::milliseconds(100);  // When descriptors or memory run out.

struct Connection {
  explicit Connection(tcp::socket&& accepted, PeerId id, const StoreLimits& limits)
      : socket(std::move(accepted)), peer(id), parser(limits) {}

  tcp::socket socket;
  PeerId peer;
  StoreRequestParser parser;
  std::string unread;     // Received, not yet understood.
  std::string replies;    // To be sent.
  bool flushing = false;  // Waits for the socket to take more of `replies`.
  bool paused = false;    // There are too many of them: no request is looked at.
  bool touched = false;   // Is in Impl::touched.
};
using ConnectionPtr = std::shared_ptr<Connection>;

}  // namespace

struct StoreServer::Impl : ReplySink, std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, StoreTable& requests_go_to, const Options& given)
      : table(requests_go_to), options(given), acceptor(io), pause(io) {}

  StoreTable& table;
  const Options options;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  boost::unordered_flat_map<PeerId, ConnectionPtr> connections;
  std::vector<ConnectionPtr> touched;  // Got replies in this turn.
  PeerId last_peer = 0;
  std::array<char, kReadBytes> buffer;

  void accept() {
    acceptor.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
      if (!self->acceptor.is_open()) return;
      if (!error) {
        self->welcome(std::move(socket));
      } else if (error == asio::error::no_descriptors || error == asio::error::no_memory ||
                 error == asio::error::no_buffer_space) {
        // The client stays in the backlog; at once again would be a busy loop.
        self->pause.expires_after(kAcceptPause);
        self->pause.async_wait([self](error_code canceled) {
          if (!canceled) self->accept();
        });
        return;
      }
      self->accept();
    });
  }

  void welcome(tcp::socket socket) {
    error_code error;
    socket.non_blocking(true, error);
    if (error) return;
    socket.set_option(tcp::no_delay(true), error);  // Without it replies are late, not wrong.
    const PeerId peer = ++last_peer;
    auto connection = std::make_shared<Connection>(std::move(socket), peer, options.limits);
    connections.emplace(peer, connection);
    receive_when_ready(connection);
  }

  void receive_when_ready(const ConnectionPtr& connection) {
    connection->socket.async_wait(tcp::socket::wait_read,
                                  [self = shared_from_this(), connection](error_code error) {
                                    if (error) return self->close(*connection);
                                    self->receive(connection);
                                  });
  }

  void receive(const ConnectionPtr& connection) {
    if (!connection->socket.is_open()) return;
    error_code error;
    const std::size_t size = connection->socket.receive(asio::buffer(buffer), 0, error);
    if (error == asio::error::would_block || error == asio::error::interrupted) {
      return receive_when_ready(connection);
    }
    if (error) return close(*connection);
    connection->unread.append(buffer.data(), size);
    process(connection);
  }

  // Applies every whole request that has come, for as long as its client reads the replies.
  void process(const ConnectionPtr& connection) {
    std::string& unread = connection->unread;
    std::size_t done = 0;
    bool malformed = false;
    while (connection->socket.is_open() && !connection->paused && !malformed) {
      const auto taken = connection->parser.next(std::string_view(unread).substr(done));
      if (taken && *taken == 0) break;
      malformed = !taken || !table.apply(connection->peer, connection->parser.request(), *this);
      if (taken) done += *taken;
      if (connection->replies.size() > options.reply_bytes_max) {
        flush(connection);
        connection->paused = connection->replies.size() > options.reply_bytes_max;
      }
    }
    unread.erase(0, done);
    // Gives back what a large value took.
    if (unread.empty() && unread.capacity() > kReadBytes) unread.shrink_to_fit();
    flush_touched();
    if (malformed) return close(*connection);
    if (connection->socket.is_open() && !connection->paused) receive_when_ready(connection);
  }

  // ReplySink
  std::string& replies_to(PeerId peer) override {
    const ConnectionPtr& connection = connections.at(peer);
    if (!std::exchange(connection->touched, true)) touched.push_back(connection);
    return connection->replies;
  }

  void flush_touched() {
    for (const auto& connection : std::exchange(touched, {})) {
      connection->touched = false;
      flush(connection);
    }
  }

  // Sends straight away, and waits for the socket only with what is left.
  void flush(const ConnectionPtr& connection) {
    if (!connection->socket.is_open() || connection->flushing) return;
    std::string& replies = connection->replies;
    std::size_t sent = 0;
    while (sent < replies.size()) {
      const auto size = ::send(connection->socket.native_handle(), replies.data() + sent,
                               replies.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (size > 0) {
        sent += static_cast<std::size_t>(size);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno != EINTR) {
        return close(*connection);
      }
    }
    replies.erase(0, sent);
    if (!replies.empty()) return flush_when_ready(connection);
    if (replies.capacity() > kReadBytes) replies.shrink_to_fit();
  }

  void flush_when_ready(const ConnectionPtr& connection) {
    connection->flushing = true;
    connection->socket.async_wait(
        tcp::socket::wait_write, [self = shared_from_this(), connection](error_code error) {
          connection->flushing = false;
          if (error) return self->close(*connection);
          self->flush(connection);
          if (!connection->paused) return;
          connection->paused = connection->replies.size() > self->options.reply_bytes_max;
          if (!connection->paused) self->process(connection);
        });
  }

  // Once for a connection; the table may be gone by the time a second handler comes here.
  void close(Connection& connection) {
    if (connections.erase(connection.peer) == 0) return;
    table.forget(connection.peer);
    error_code ignored;  // It is gone either way.
    connection.socket.close(ignored);
  }

  void close_all() {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    for (const auto& [peer, connection] : std::exchange(connections, {})) {
      table.forget(peer);
      connection->socket.close(ignored);
    }
  }
};

Result<std::unique_ptr<StoreServer>> StoreServer::listen(asio::io_context& io, StoreTable& table,
                                                         const Options& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("store host '{}' is not a numeric IPv4 or IPv6 address", options.host)};
  }
  const tcp::endpoint endpoint(address, options.port);
  auto impl = std::make_shared<Impl>(io, table, options);
  tcp::acceptor& acceptor = impl->acceptor;
  acceptor.open(endpoint.protocol(), error);
  // A port that the run before has just left is taken again, TIME_WAIT or not.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) {
    const auto kind =
        error == asio::error::address_in_use ? ErrorKind::kAddressInUse : ErrorKind::kSystem;
    Error failure = Error::from_errno(
        fmt::format("store at {} port {}", options.host, options.port), error.value());
    failure.kind = kind;
    return failure;
  }
  impl->accept();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() { impl_->close_all(); }

std::size_t StoreServer::connection_count() const { return impl_->connections.size(); }

std::uint16_t StoreServer::port() const { return impl_->acceptor.local_endpoint().port(); }

}  // namespace distrun
