#include "launcher/nodes/node_channel.h"

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "store/network/endpoint_text.h"
#include "store/protocol/request.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t kUnsentBytesMax = 8 * kNodeMessageBytesMax;
constexpr std::size_t kTextsUnsentMax = 4 * kNodeTextBytesMax;
// At the end: to send everything, and then until the other side closes.
constexpr auto kSendLast = std::chrono::seconds(15), kLinger = std::chrono::seconds(5);

void set_options(tcp::socket& socket) {
  const auto set = [&](int level, int name, int value) {
    ::setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
  };
  // After 5 s of silence the kernel probes every 3 s; after 15 s it closes the connection.
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  // The kernel would take megabytes of a text, and later messages would wait for these.
  set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, static_cast<int>(2 * kNodeMessageBytesMax));
}

Error reason_of(const error_code& error) {
  constexpr const char* kEnded = "its connection has ended";
  if (error == asio::error::eof) return {ErrorKind::kSystem, kEnded};
  return Error::from_errno(kEnded, error.value());
}

Error broken(std::string what) { return {ErrorKind::kProtocol, std::move(what)}; }

}  // namespace

std::shared_ptr<NodeChannel> NodeChannel::open(tcp::socket socket, std::string received,
                                               Handlers handlers) {
  std::shared_ptr<NodeChannel> channel(
      new NodeChannel(std::move(socket), std::move(received), std::move(handlers)));
  // Posted, so that the caller has the channel before its first message.
  asio::post(channel->socket_.get_executor(), [channel] { channel->read_messages(); });
  return channel;
}

NodeChannel::NodeChannel(tcp::socket socket, std::string received, Handlers handlers)
    : socket_(std::move(socket)),
      linger_(socket_.get_executor()),
      handlers_(std::move(handlers)),
      unread_(std::move(received)) {
  error_code ignored;
  remote_ = text_of(socket_.remote_endpoint(ignored));
  set_options(socket_);
}

void NodeChannel::greet() { send(std::string(1, static_cast<char>(kNodeGreeting))); }

void NodeChannel::send(const NodeMessage& message) { send(to_line(message)); }

void NodeChannel::send(const std::string& bytes) {
  if (!socket_.is_open() || closing_) return;
  if (to_send_.size() + bytes.size() > kUnsentBytesMax) {
    return end(broken("it does not read its messages"));
  }
  to_send_ += bytes;
  if (sending_.empty()) write();
}

void NodeChannel::send_text(std::string text) {
  if (!socket_.is_open() || closing_) return;
  texts_.add(std::move(text));
  if (texts_.bytes() <= kTextsUnsentMax) return send_piece();
  // Posted, because callers expect no on_end here.
  asio::post(socket_.get_executor(),
             [self = shared_from_this()] { self->end(broken("it does not read its messages")); });
}

void NodeChannel::send_after_texts(const NodeMessage& message) {
  if (texts_.is_empty()) return send(message);
  if (socket_.is_open() && !closing_) after_texts_ += to_line(message);
}

// If nothing else waits, sends the next piece of a text, and after the last one what waits for it.
void NodeChannel::send_piece() {
  if (unsent() > 0 || texts_.is_empty()) return;
  to_send_ = to_line(texts_.next());
  if (texts_.is_empty()) to_send_ += std::exchange(after_texts_, {});
  write();
}

void NodeChannel::write() {
  sending_ = std::exchange(to_send_, {});
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](error_code error, std::size_t) {
                      self->sending_.clear();
                      if (error) return self->end(reason_of(error));
                      self->written();
                    });
}

void NodeChannel::written() {
  if (!to_send_.empty()) return write();
  send_piece();
  if (closing_ && unsent() == 0) return close_now();
  const auto tell = handlers_.on_sent;
  if (tell) tell();
}

std::string NodeChannel::own_address() const {
  error_code error;
  const auto address = socket_.local_endpoint(error).address();
  if (error) return "";
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

void NodeChannel::receive() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [self = shared_from_this()](error_code error, std::size_t size) {
                            if (error) return self->end(reason_of(error));
                            if (!self->lingers_) self->unread_.append(self->buffer_.data(), size);
                            self->read_messages();
                          });
}

void NodeChannel::read_messages() {
  std::size_t line_end;
  while (handlers_.on_message && (line_end = unread_.find('\n')) != std::string::npos) {
    const auto message = node_message_from(std::string_view(unread_).substr(0, line_end));
    if (!message) return end(broken("it does not speak distrun's protocol (is it HTTP?)"));
    unread_.erase(0, line_end + 1);
    const auto handle = handlers_.on_message;  // A copy: the handler may close this channel.
    handle(*message);
  }
  if (unread_.size() > kNodeMessageBytesMax) {
    return end(broken(fmt::format("it sends more than {} bytes without an end of the line",
                                  kNodeMessageBytesMax)));
  }
  if (socket_.is_open()) receive();
}

void NodeChannel::end(const Error& reason) {
  const auto tell = std::exchange(handlers_, {}).on_end;
  texts_ = {};
  error_code ignored;
  socket_.close(ignored);
  linger_.cancel();
  if (tell) tell(reason);
}

void NodeChannel::close() {
  texts_ = {};
  after_texts_.clear();
  close_when_sent();
}

void NodeChannel::close_when_sent() {
  handlers_ = {};
  closing_ = true;
  if (sending_.empty()) close_now();
}

// Unread data at close() would make the kernel discard what was sent last.
void NodeChannel::close_last() {
  if (!socket_.is_open()) return;
  lingers_ = true;
  unread_.clear();
  close_within(kSendLast);
  close_when_sent();
}

void NodeChannel::close_with(const NodeMessage& message) {
  send(message);
  close_last();
}

void NodeChannel::close_now() {
  if (!socket_.is_open()) return;  // The other side has ended before the last write did.
  error_code ignored;
  if (!lingers_) {
    socket_.close(ignored);
    return;
  }
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  close_within(kLinger);
}

void NodeChannel::close_within(std::chrono::seconds time) {
  linger_.expires_after(time);
  linger_.async_wait([self = shared_from_this()](error_code canceled) {
    error_code ignored;
    if (!canceled) self->socket_.close(ignored);
  });
}

}  // namespace distrun
