// NodeChannel is a connection between two nodes of a run, with messages in both directions.
//
//     auto channel = NodeChannel::open(std::move(socket), "", {
//         .on_message = [&](const NodeMessage& message) { … },
//         .on_end = [&](const Error& reason) { … it is lost … }});
//     channel->send(JoinRequest{…});
//
// A machine that disappears is noticed within about 15 seconds. A message has at most
// kNodeMessageBytesMax bytes, the unsent queue a few times as many. Peers that exceed this or send
// other data are disconnected.
//
// A text can be much longer. Its pieces wait outside that queue, and each is sent when nothing else
// waits, so texts delay no other message for long.
//
// on_end is called at most once, last, and never after close(). Thread safety: the thread of the
// socket's io_context only. The channel keeps itself alive until it ends or is closed.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/nodes/node_messages.h"
#include "launcher/nodes/text_outbox.h"

namespace distrun {

class NodeChannel : public std::enable_shared_from_this<NodeChannel> {
 public:
  struct Handlers {
    std::function<void(const NodeMessage& message)> on_message;
    // "its connection has ended"; kProtocol if the peer is not a node.
    std::function<void(const Error& reason)> on_end;
    // Nothing waits to be sent, except texts. May be empty.
    std::function<void()> on_sent = {};
  };

  // `received` has already been read from the socket.
  static std::shared_ptr<NodeChannel> open(boost::asio::ip::tcp::socket socket,
                                           std::string received, Handlers handlers);

  // Identifies a node; clients of the store do not send it. The connecting side sends it first.
  void greet();

  void send(const NodeMessage& message);

  // Sends it in pieces, as NodeText. If too many texts wait, the connection ends.
  void send_text(std::string text);

  // Sends it when the texts are sent.
  void send_after_texts(const NodeMessage& message);

  // Bytes that wait to be sent, except texts.
  std::size_t unsent() const { return sending_.size() + to_send_.size(); }

  // Closes after everything is sent, except texts.
  void close();

  // Closes after everything is sent, including texts, and the other side has closed, or after a
  // timeout. So what was sent last arrives, even if the other side is sending too.
  void close_last();

  // Sends `message`, and closes when the other side has received it or after a short timeout.
  void close_with(const NodeMessage& message);

  // This side's IP address, without port. IPv4 addresses on IPv6 sockets have their IPv4 form.
  std::string own_address() const;

  std::string remote() const { return remote_; }  // "10.0.0.7:51234".

 private:
  NodeChannel(boost::asio::ip::tcp::socket socket, std::string received, Handlers handlers);

  void receive();
  void read_messages();
  void send(const std::string& bytes);
  void send_piece();
  void write();
  void written();
  void end(const Error& reason);
  void close_when_sent();
  void close_now();
  void close_within(std::chrono::seconds time);

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer linger_;
  std::string remote_;
  Handlers handlers_;
  std::array<char, 4096> buffer_;
  std::string unread_;             // Received part of a message.
  std::string sending_, to_send_;  // In the current write; waiting.
  TextOutbox texts_;
  std::string after_texts_;  // Messages that wait for them.
  bool closing_ = false;     // After sending, close …
  bool lingers_ = false;     // … only the sending half, until the other side closes.
};

}  // namespace distrun
