// NodeChannel is one connection between two nodes of a run: messages in both directions.
//
//     auto channel = NodeChannel::open(std::move(socket), "", {
//         .on_message = [&](const NodeMessage& message) { … },
//         .on_end = [&](const Error& reason) { … it is lost … }});
//     channel->send(JoinRequest{…});
//
// A machine that has gone without a word is noticed by the kernel within about fifteen seconds.
// What the other side may cost is bounded: a message by kNodeMessageBytesMax, what it has not read
// yet by a few of these; who goes beyond, or sends what is no message, is at an end.
//
// on_end comes at most once, last, and never after close().  One thread, that of the socket's
// io_context.  The connection stays until it ends or is closed, whoever holds the pointer.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "launcher/nodes/node_messages.h"

namespace distrun {

class NodeChannel : public std::enable_shared_from_this<NodeChannel> {
 public:
  struct Handlers {
    std::function<void(const NodeMessage& message)> on_message;
    // "its connection has ended"; kProtocol where the other side is no node.
    std::function<void(const Error& reason)> on_end;
  };

  // `received` is what has been read from the socket already.
  static std::shared_ptr<NodeChannel> open(boost::asio::ip::tcp::socket socket,
                                           std::string received, Handlers handlers);

  // Says that a node is speaking, not a client of the store: before the first message of who has
  // connected.
  void greet();

  void send(const NodeMessage& message);

  // Closes when all that was sent is on its way.
  void close();

  // Sends `message`, and closes when the other side has seen it, but soon.
  void close_with(const NodeMessage& message);

  // This side's numeric address, without the port; an IPv4 address as such on an IPv6 socket too.
  std::string own_address() const;

  std::string remote() const { return remote_; }  // "10.0.0.7:51234".

 private:
  NodeChannel(boost::asio::ip::tcp::socket socket, std::string received, Handlers handlers);

  void receive();
  void read_messages();
  void send(const std::string& bytes);
  void write();
  void end(const Error& reason);
  void close_now();

  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer linger_;
  std::string remote_;
  Handlers handlers_;
  std::array<char, 4096> buffer_;
  std::string unread_;             // Received, and not a whole message yet.
  std::string sending_, to_send_;  // Under way; behind it.
  bool closing_ = false;           // When all is sent: closed, or …
  bool lingers_ = false;           // … half of it, until the other side closes.
};

}  // namespace distrun
