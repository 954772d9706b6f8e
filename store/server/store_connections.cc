#include "store/server/store_connections.h"

#include <cstdint>
#include <utility>

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include "store/network/endpoint_text.h"
#include "store/protocol/wire.h"
#include "store/server/connections_status.h"
#include "store/server/request_turn.h"

namespace distrun {

using boost::asio::ip::tcp;
using boost::system::error_code;

StoreConnections::StoreConnections(boost::asio::any_io_executor executor, tcp::endpoint own,
                                   Settings settings)
    : executor_(std::move(executor)),
      own_(std::move(own)),
      limits_(settings.limits),
      take_node_(std::move(settings.take_node)),
      check_key_(std::move(settings.check_key)),
      events_(std::move(settings.on_refused)) {}

void StoreConnections::add(tcp::socket socket, const tcp::endpoint& remote) {
  const PeerId peer = ++last_peer_;
  auto connection = std::make_shared<Connection>(std::move(socket), remote, peer, limits_);
  connections_.emplace(peer, connection);
  receive(connection);
}

void StoreConnections::receive(const ConnectionPtr& connection) {
  connection->socket.async_read_some(
      boost::asio::buffer(connection->first),
      [self = shared_from_this(), connection](error_code error, std::size_t size) {
        if (error || !connection->socket.is_open()) return self->close(*connection);
        self->received(connection, size);
      });
}

void StoreConnections::received(const ConnectionPtr& connection, std::size_t size) {
  std::string_view bytes(connection->first.data(), size);
  if (size == connection->first.size()) {  // There may be more.
    bytes.copy(buffer_.data(), size);
    error_code none_now;
    size += connection->socket.receive(boost::asio::buffer(buffer_) + size, 0, none_now);
    bytes = {buffer_.data(), size};
  }
  if (is_node(*connection, bytes)) {
    connections_.erase(connection->peer);
    return take_node_(std::move(connection->socket), std::string(bytes.substr(1)));
  }
  if (!connection->unread.empty()) {
    connection->unread.append(bytes);
    return process(connection);
  }
  // Usually whole requests: parsed in place.
  const std::size_t done = apply(connection, bytes);
  connection->unread.assign(bytes.substr(done));
  after_requests(connection);
}

bool StoreConnections::is_node(const Connection& connection, std::string_view bytes) const {
  const bool is_first = !connection.last_request && connection.unread.empty();
  return is_first && take_node_ && static_cast<std::uint8_t>(bytes[0]) == kNodeGreeting;
}

void StoreConnections::process(const ConnectionPtr& connection) {
  connection->drop_unread(apply(connection, connection->unread));
  after_requests(connection);
}

// Applies complete requests while the client reads its replies and its turn lasts. Returns how many
// bytes they took.
std::size_t StoreConnections::apply(const ConnectionPtr& connection, std::string_view bytes) {
  std::size_t done = 0;
  RequestTurn turn;
  connection->last_at = Connection::Clock::now();
  while (connection->socket.is_open() && !connection->paused && !connection->yielding) {
    const auto taken = connection->parser.next(bytes.substr(done));
    if (!taken) {
      refuse(*connection, taken.error());
      break;
    }
    if (*taken == 0) break;
    done += *taken;
    const StoreRequest& request = connection->parser.request();
    turn.spend_on(request);
    connection->yielding = turn.is_over();
    if (const auto applied = apply_one(*connection, request); !applied) {
      refuse(*connection, applied.error());
      break;
    }
    if (has_too_many_replies(*connection)) {
      flush(connection);
      connection->paused = has_too_many_replies(*connection);
    }
  }
  return done;
}

Result<void> StoreConnections::apply_one(Connection& connection, const StoreRequest& request) {
  connection.last_request = request.code;
  if (check_key_) {
    if (auto checked = check_key(connection, request); !checked) return checked;
  }
  switch (request.code) {
    case RequestCode::kStatus:
      append_text(replies_to(connection.peer), to_json(status()));
      return {};
    case RequestCode::kWait:
    case RequestCode::kBarrier:
      connection.wait_since = connection.last_at;
      break;
    case RequestCode::kCancelWait:
      note_gave_up(connection);
      break;
    default:
      break;
  }
  return table_.apply(connection.peer, request, *this);
}

Result<void> StoreConnections::check_key(const Connection& connection,
                                         const StoreRequest& request) {
  if (request.keys.empty()) return {};
  const auto goes_on = check_key_(connection.remote, request.key());
  if (!goes_on) return goes_on.error();
  if (!*goes_on) check_key_ = nullptr;
  return {};
}

void StoreConnections::after_requests(const ConnectionPtr& connection) {
  flush_touched();
  if (!connection->socket.is_open()) return;
  account(*connection, connection->bytes());
  if (connection->accounted > kFreeBufferBytes &&
      table_.bytes() + buffered_ > limits_.memory_bytes_max) {
    return refuse(
        *connection,
        {ErrorKind::kProtocol,
         fmt::format("a request or answers of {} bytes, and the store is full: {} of {} bytes are "
                     "taken",
                     connection->accounted, table_.bytes() + buffered_, limits_.memory_bytes_max)});
  }
  if (connection->yielding) return process_later(connection);
  if (!connection->paused) receive(connection);
}

void StoreConnections::process_later(const ConnectionPtr& connection) {
  boost::asio::post(executor_, [self = shared_from_this(), connection] {
    connection->yielding = false;
    if (!connection->socket.is_open()) return;
    if (!connection->paused) self->process(connection);
  });
}

std::string& StoreConnections::replies_to(PeerId peer) {
  const ConnectionPtr& connection = connections_.at(peer);
  if (!std::exchange(connection->touched, true)) touched_.push_back(connection);
  return connection->replies;
}

void StoreConnections::flush_touched() {
  // A failed flush closes its connection, which adds none to touched_.
  for (std::size_t i = 0; i < touched_.size(); ++i) {
    touched_[i]->touched = false;
    flush(touched_[i]);
  }
  touched_.clear();
}

void StoreConnections::flush(const ConnectionPtr& connection) {
  if (!connection->socket.is_open() || connection->flushing) return;
  if (!connection->send_replies()) return close(*connection);
  account(*connection, connection->bytes());
  if (!connection->replies.empty()) flush_when_ready(connection);
}

void StoreConnections::flush_when_ready(const ConnectionPtr& connection) {
  connection->flushing = true;
  connection->socket.async_wait(tcp::socket::wait_write,
                                [self = shared_from_this(), connection](error_code error) {
                                  connection->flushing = false;
                                  if (error) return self->close(*connection);
                                  self->flush(connection);
                                  if (!connection->paused) return;
                                  connection->paused = self->has_too_many_replies(*connection);
                                  // If it is yielding, process_later() continues.
                                  if (!connection->paused && !connection->yielding)
                                    self->process(connection);
                                });
}

bool StoreConnections::has_too_many_replies(const Connection& connection) const {
  return connection.unsent() > limits_.unread_bytes_max;
}

void StoreConnections::refuse(Connection& connection, const Error& reason) {
  if (!connection.socket.is_open()) return;
  events_.note_refused(connection.remote, reason);
  close(connection);
}

// Another handler of the connection may call this again.
void StoreConnections::close(Connection& connection) {
  if (connections_.erase(connection.peer) == 0) return;
  note_gave_up(connection);
  table_.forget(connection.peer);
  account(connection, 0);
  error_code ignored;  // The connection ends either way.
  connection.socket.close(ignored);
}

void StoreConnections::start_over() {
  error_code ignored;
  for (const auto& [peer, connection] : std::exchange(connections_, {})) {
    connection->socket.close(ignored);
  }
  buffered_ = 0;
  table_ = StoreTable(limits_);
  events_.start_over();
}

void StoreConnections::account(Connection& connection, std::size_t bytes) {
  buffered_ = buffered_ - connection.accounted + bytes;
  connection.accounted = bytes;
  table_.set_taken_elsewhere(buffered_);
}

void StoreConnections::note_gave_up(const Connection& connection) {
  if (auto wait = table_.wait_of(connection.peer, kKeysShown)) {
    events_.note_gave_up(connection.remote, connection.wait_since, std::move(*wait));
  }
}

StoreStatus StoreConnections::status() const {
  const auto now = Connection::Clock::now();
  StoreStatus status = status_of(connections_, table_, now);
  status.address = text_of(own_);
  status.up_s = std::chrono::duration<double>(now - since_).count();
  status.bytes += buffered_;
  events_.tell(status, now);
  return status;
}

}  // namespace distrun
