#include "distrun/store_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include "distrun/store_address.h"
#include "store/local_peer.h"
#include "store/port_holder.h"
#include "store/request_parser.h"
#include "store/wire.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

using Clock = std::chrono::steady_clock;

// Received at once, of one connection, before others get a turn.  Most requests fit into the first.
constexpr std::size_t kFirstBytes = 512, kReadBytes = 64 * kKiB;
// When descriptors or memory run out.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// What is done for one client before others get a turn: requests, with the keys they name.  A
// status and a list of all keys count as many.
constexpr std::size_t kTurn = 1024;
// What a status tells at most.
constexpr std::size_t kPeersShown = 1024, kKeysShown = 16, kEventsKept = 16;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

struct Connection {
  Connection(tcp::socket&& accepted, tcp::endpoint from, PeerId id, const StoreLimits& limits)
      : socket(std::move(accepted)), remote(std::move(from)), peer(id), parser(limits) {}

  tcp::socket socket;
  const tcp::endpoint remote;
  const PeerId peer;
  StoreRequestParser parser;
  std::array<char, kFirstBytes> first;  // What has just been received.
  std::string unread;                   // Received, not yet understood.
  std::string replies;                  // To be sent, but for …
  std::size_t sent = 0;                 // … so many bytes, which have been.
  std::size_t buffered = 0;             // What these two take.
  bool flushing = false;                // Waits for the socket to take more of `replies`.
  bool paused = false;                  // There are too many of them: no request is looked at.
  bool yielding = false;  // It has had its turn: its other requests wait for the next.
  bool touched = false;   // Is in Impl::touched.
  const Clock::time_point since = Clock::now();
  Clock::time_point last_at = since, wait_since = since;
  std::optional<RequestCode> last_request;
};
using ConnectionPtr = std::shared_ptr<Connection>;

struct GaveUp {
  tcp::endpoint remote;
  Clock::time_point at;
  Clock::duration waited;
  StoreWait wait;
};

struct Closed {
  tcp::endpoint remote;
  Clock::time_point at;
  std::string reason;
};

// Keeps the last few.
template <class Event>
void remember(std::deque<Event>& events, Event event) {
  events.push_front(std::move(event));
  if (events.size() > kEventsKept) events.pop_back();
}

// Empties a buffer's front; what a large request or reply took is given back.
void drop_front(std::string& buffer, std::size_t size) {
  if (size > 0) buffer.erase(0, size);
  if (buffer.empty() && buffer.capacity() > kFreeBufferBytes) buffer.shrink_to_fit();
}

}  // namespace

struct StoreServer::Impl : ReplySink, std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, StoreTable& requests_go_to, const Options& given)
      : table(&requests_go_to), options(given), acceptor(io), pause(io) {}

  StoreTable* table;
  const Options options;
  const StoreLimits& limits() const { return table->limits(); }
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::optional<LocalSockets> local_sockets;  // Where `same_user` is asked for.
  boost::unordered_flat_map<PeerId, ConnectionPtr> connections;
  std::vector<ConnectionPtr> touched;  // Got replies in this turn.
  PeerId last_peer = 0;
  std::size_t buffered = 0;  // By all connections.
  const Clock::time_point since = Clock::now();
  std::uint64_t attempt = 0;  // Counted by start_over().
  std::deque<GaveUp> gave_up;
  std::deque<Closed> closed;
  std::uint64_t refused = 0;
  std::array<char, kReadBytes> buffer;

  void accept() {
    acceptor.async_accept(
        [self = shared_from_this(), attempt = attempt](error_code error, tcp::socket socket) {
          // A client of the attempt before is not let in, and the new one has an accept() of its
          // own.
          if (!self->acceptor.is_open() || attempt != self->attempt) return;
          // Descriptors or memory have run out, or it does not listen any more.
          if (error && error != asio::error::connection_aborted) return self->accept_later();
          if (!error) self->welcome(std::move(socket));
          self->accept();
        });
  }

  // The client stays in the backlog; at once again would be a busy loop.
  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = shared_from_this(), attempt = attempt](error_code canceled) {
      if (!canceled && self->acceptor.is_open() && attempt == self->attempt) self->accept();
    });
  }

  void welcome(tcp::socket socket) {
    error_code error;
    const tcp::endpoint remote = socket.remote_endpoint(error);
    if (!error) socket.non_blocking(true, error);
    if (error) return;  // It has gone again.
    if (connections.size() >= limits().connections_max) {
      return note_refusal(
          remote, {ErrorKind::kProtocol, fmt::format("{} connections are open: no more are allowed",
                                                     limits().connections_max)});
    }
    if (options.same_user) {
      if (const auto admitted = check_user(socket, remote); !admitted) {
        return note_refusal(remote, admitted.error());
      }
    }
    const PeerId peer = ++last_peer;
    auto connection = std::make_shared<Connection>(std::move(socket), remote, peer, limits());
    connections.emplace(peer, connection);
    receive(connection);
  }

  Result<void> check_user(const tcp::socket& socket, const tcp::endpoint& remote) {
    error_code error;
    const tcp::endpoint own = socket.local_endpoint(error);
    if (error) return Error::from_errno("its socket", error.value());
    const auto found = local_sockets->find(remote, own);
    if (!found) return found.error();
    if (!*found) {
      return Error{ErrorKind::kProtocol, "it is not a process of this machine that still runs"};
    }
    const uid_t uid = (*found)->uid;
    if (uid == ::geteuid() || uid == 0) return {};
    return Error{ErrorKind::kProtocol, fmt::format("it belongs to the user with the id {}", uid)};
  }

  void note_refusal(const tcp::endpoint& remote, const Error& reason) {
    ++refused;
    remember(closed, Closed{remote, Clock::now(), reason.message});
    if (options.on_refused) options.on_refused(text_of(remote), reason);
  }

  void refuse(Connection& connection, const Error& reason) {
    if (!connection.socket.is_open()) return;
    note_refusal(connection.remote, reason);
    close(connection);
  }

  void receive(const ConnectionPtr& connection) {
    connection->socket.async_read_some(
        asio::buffer(connection->first),
        [self = shared_from_this(), connection](error_code error, std::size_t size) {
          if (error || !connection->socket.is_open()) return self->close(*connection);
          self->received(connection, size);
        });
  }

  void received(const ConnectionPtr& connection, std::size_t size) {
    std::string_view bytes(connection->first.data(), size);
    if (size == connection->first.size()) {  // There may be more.
      bytes.copy(buffer.data(), size);
      error_code none_now;
      size += connection->socket.receive(asio::buffer(buffer) + size, 0, none_now);
      bytes = {buffer.data(), size};
    }
    const bool is_first = !connection->last_request && connection->unread.empty();
    if (is_first && options.on_node && static_cast<std::uint8_t>(bytes[0]) == kNodeGreeting) {
      connections.erase(connection->peer);
      return options.on_node(std::move(connection->socket), std::string(bytes.substr(1)));
    }
    if (!connection->unread.empty()) {
      connection->unread.append(bytes);
      return process(connection);
    }
    // Nearly always whole requests: they are read where they are.
    const std::size_t done = apply(connection, bytes);
    connection->unread.assign(bytes.substr(done));
    after_requests(connection);
  }

  void process(const ConnectionPtr& connection) {
    drop_front(connection->unread, apply(connection, connection->unread));
    after_requests(connection);
  }

  // Applies every whole request that has come, for as long as its client reads the replies.
  // Returns how many bytes are done with.
  std::size_t apply(const ConnectionPtr& connection, std::string_view bytes) {
    std::size_t done = 0, effort = 0;
    connection->last_at = Clock::now();
    while (connection->socket.is_open() && !connection->paused && !connection->yielding) {
      const auto taken = connection->parser.next(bytes.substr(done));
      if (!taken) {
        refuse(*connection, taken.error());
        break;
      }
      if (*taken == 0) break;
      done += *taken;
      const StoreRequest& request = connection->parser.request();
      const bool is_long =
          request.code == RequestCode::kStatus || request.code == RequestCode::kListKeys;
      effort += is_long ? kTurn : 1 + request.keys.size();
      connection->yielding = effort >= kTurn;
      connection->last_request = request.code;
      if (request.code == RequestCode::kWait || request.code == RequestCode::kBarrier) {
        connection->wait_since = connection->last_at;
      }
      if (request.code == RequestCode::kStatus) {
        append_text(replies_to(connection->peer), to_json(status()));
      } else {
        if (request.code == RequestCode::kCancelWait) note_gave_up(*connection);
        if (const auto applied = table->apply(connection->peer, request, *this); !applied) {
          refuse(*connection, applied.error());
          break;
        }
      }
      if (has_too_many_replies(*connection)) {
        flush(connection);
        connection->paused = has_too_many_replies(*connection);
      }
    }
    return done;
  }

  bool has_too_many_replies(const Connection& connection) const {
    return connection.replies.size() - connection.sent > limits().unread_bytes_max;
  }

  void go_on_later(const ConnectionPtr& connection) {
    asio::post(acceptor.get_executor(), [self = shared_from_this(), connection] {
      connection->yielding = false;
      if (!connection->socket.is_open()) return;
      if (!connection->paused) self->process(connection);
    });
  }

  void after_requests(const ConnectionPtr& connection) {
    flush_touched();
    if (!connection->socket.is_open()) return;
    account(*connection);
    if (connection->buffered > kFreeBufferBytes &&
        table->bytes() + buffered > limits().memory_bytes_max) {
      return refuse(*connection,
                    {ErrorKind::kProtocol,
                     fmt::format("a request or answers of {} bytes, and the store is full: {} of "
                                 "{} bytes are taken",
                                 connection->buffered, table->bytes() + buffered,
                                 limits().memory_bytes_max)});
    }
    if (connection->yielding) return go_on_later(connection);
    if (!connection->paused) receive(connection);
  }

  void account(Connection& connection) {
    account(connection, connection.unread.capacity() + connection.replies.capacity() +
                            connection.parser.bytes());
  }
  void account(Connection& connection, std::size_t now) {
    buffered = buffered - connection.buffered + now;
    connection.buffered = now;
    table->set_taken_elsewhere(buffered);
  }

  // ReplySink
  std::string& replies_to(PeerId peer) override {
    const ConnectionPtr& connection = connections.at(peer);
    if (!std::exchange(connection->touched, true)) touched.push_back(connection);
    return connection->replies;
  }

  void flush_touched() {
    // A flush that fails closes its connection, which touches no other.
    for (std::size_t i = 0; i < touched.size(); ++i) {
      touched[i]->touched = false;
      flush(touched[i]);
    }
    touched.clear();
  }

  // Sends straight away, and waits for the socket only with what is left.
  void flush(const ConnectionPtr& connection) {
    if (!connection->socket.is_open() || connection->flushing) return;
    std::string& replies = connection->replies;
    std::size_t& sent = connection->sent;
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
    // Moved to the front rarely: a slow reader takes a large answer in many small pieces.
    if (sent >= replies.size() / 2) drop_front(replies, std::exchange(sent, 0));
    account(*connection);
    if (!replies.empty()) flush_when_ready(connection);
  }

  void flush_when_ready(const ConnectionPtr& connection) {
    connection->flushing = true;
    connection->socket.async_wait(tcp::socket::wait_write,
                                  [self = shared_from_this(), connection](error_code error) {
                                    connection->flushing = false;
                                    if (error) return self->close(*connection);
                                    self->flush(connection);
                                    if (!connection->paused) return;
                                    connection->paused = self->has_too_many_replies(*connection);
                                    // Where it is yielding, its turn comes anyway.
                                    if (!connection->paused && !connection->yielding)
                                      self->process(connection);
                                  });
  }

  // Once for a connection; the table may be gone by the time a second handler comes here.
  void close(Connection& connection) {
    if (connections.erase(connection.peer) == 0) return;
    note_gave_up(connection);
    table->forget(connection.peer);
    account(connection, 0);
    error_code ignored;  // It is gone either way.
    connection.socket.close(ignored);
  }

  void close_connections() {
    error_code ignored;
    for (const auto& [peer, connection] : std::exchange(connections, {})) {
      table->forget(peer);
      connection->socket.close(ignored);
    }
    buffered = 0;
    table->set_taken_elsewhere(0);
  }

  void close_all() {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    close_connections();
  }

  void start_over(StoreTable& fresh) {
    close_connections();
    ++attempt;
    pause.cancel();
    error_code ignored;
    acceptor.cancel(ignored);
    // Those in the backlog have connected in the attempt before, and may have sent requests.
    error_code error;
    acceptor.non_blocking(true, error);
    while (!error || error == asio::error::connection_aborted) {
      tcp::socket gone(acceptor.get_executor());
      acceptor.accept(gone, error);
    }
    table = &fresh;
    gave_up.clear();
    closed.clear();
    accept();
  }

  void note_gave_up(const Connection& connection) {
    auto wait = table->wait_of(connection.peer, kKeysShown);
    if (!wait) return;
    const auto now = Clock::now();
    remember(gave_up,
             GaveUp{connection.remote, now, now - connection.wait_since, std::move(*wait)});
  }

  StoreStatus status() const {
    const auto now = Clock::now();
    StoreStatus status;
    error_code ignored;
    status.address = text_of(acceptor.local_endpoint(ignored));
    status.up_s = seconds(now - since);
    status.keys = table->key_count();
    status.bytes = table->bytes() + buffered;
    status.connections = connections.size();
    status.waiting = table->waiting_count();
    status.refused = refused;

    std::vector<const Connection*> shown;
    for (const auto& [peer, connection] : connections) shown.push_back(connection.get());
    const auto order = [this](const Connection* a, const Connection* b) {
      const bool a_waits = table->is_waiting(a->peer), b_waits = table->is_waiting(b->peer);
      return a_waits != b_waits ? a_waits : a->peer < b->peer;
    };
    std::sort(shown.begin(), shown.end(), order);
    if (shown.size() > kPeersShown) shown.resize(kPeersShown);
    for (const Connection* connection : shown) {
      StoreStatus::Peer& peer = status.peers.emplace_back();
      peer.address = text_of(connection->remote);
      peer.store_address = text_of(connection->socket.local_endpoint(ignored));
      peer.connected_s = seconds(now - connection->since);
      peer.wait = table->wait_of(connection->peer, kKeysShown);
      peer.idle_s = seconds(now - (peer.wait ? connection->wait_since : connection->last_at));
      if (connection->last_request) {
        peer.last_request = request_spec(*connection->last_request).name;
      }
    }
    for (const GaveUp& event : gave_up) {
      status.gave_up.push_back(
          {text_of(event.remote), seconds(now - event.at), seconds(event.waited), event.wait});
    }
    for (const Closed& event : closed) {
      status.closed.push_back({text_of(event.remote), seconds(now - event.at), event.reason});
    }
    return status;
  }
};

namespace {

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
                 fmt::format("descriptor {} is not a TCP socket that listens", fd)};
  }
  error_code error;
  acceptor.assign(domain == AF_INET ? tcp::v4() : tcp::v6(), fd, error);
  if (error) return Error::from_errno(fmt::format("listen on descriptor {}", fd), error.value());
  return {};
}

Result<void> bind_and_listen(tcp::acceptor& acceptor, const StoreServer::Options& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (error) {
    return Error{
        ErrorKind::kInvalidArgument,
        fmt::format("store host '{}' is not a numeric IPv4 or IPv6 address", options.host)};
  }
  const tcp::endpoint endpoint(address, options.port);
  acceptor.open(endpoint.protocol(), error);
  // A port that the run before has just left is taken again, TIME_WAIT or not.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && address.is_v6() && address.is_unspecified()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (!error) return {};
  Error failure = Error::from_errno(text_of(endpoint), error.value());
  if (error == asio::error::address_in_use) {
    failure.kind = ErrorKind::kAddressInUse;
    const std::string holder = port_holder(endpoint);
    if (!holder.empty()) failure.message += " by " + holder;
  }
  return failure;
}

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::listen(asio::io_context& io, StoreTable& table,
                                                         const Options& options) {
  auto impl = std::make_shared<Impl>(io, table, options);
  if (options.same_user) {
    auto sockets = LocalSockets::open();
    if (!sockets) return sockets.error();
    impl->local_sockets = std::move(*sockets);
  }
  const auto listens = options.listen_fd >= 0 ? take_over(impl->acceptor, options.listen_fd)
                                              : bind_and_listen(impl->acceptor, options);
  if (!listens) return listens.error();
  // Accepted sockets inherit these.  Without the first replies are late, not wrong; by the second
  // a machine that has gone without a word is noticed in the end.
  error_code ignored;
  impl->acceptor.set_option(tcp::no_delay(true), ignored);
  impl->acceptor.set_option(tcp::socket::keep_alive(true), ignored);
  impl->accept();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

StoreServer::StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() { impl_->close_all(); }

std::size_t StoreServer::connection_count() const { return impl_->connections.size(); }

StoreStatus StoreServer::status() const { return impl_->status(); }

void StoreServer::start_over(StoreTable& fresh) { impl_->start_over(fresh); }

std::uint16_t StoreServer::port() const { return impl_->acceptor.local_endpoint().port(); }

std::string StoreServer::address() const { return text_of(impl_->acceptor.local_endpoint()); }

}  // namespace distrun
