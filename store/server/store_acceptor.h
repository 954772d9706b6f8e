// StoreAcceptor accepts clients one by one.
//
//     const auto hand_over = [&](tcp::socket client) { … };
//     auto acceptor = std::make_shared<StoreAcceptor>(std::move(socket), hand_over);
//     acceptor->start();
//
// It pauses when descriptors or memory run out: clients then wait in the kernel's queue. Threads:
// the event loop's. Pending handlers keep the object alive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

namespace distrun {

class StoreAcceptor : public std::enable_shared_from_this<StoreAcceptor> {
 public:
  using OnClient = std::function<void(boost::asio::ip::tcp::socket socket)>;

  // Requires that `socket` listens.
  StoreAcceptor(boost::asio::ip::tcp::acceptor socket, OnClient on_client);

  void start() { accept(); }

  // Drops the clients in the kernel's queue, and accepts later ones.
  void start_over();

  // `on_client` is not called after this.
  void close();

  boost::asio::ip::tcp::endpoint endpoint() const { return socket_.local_endpoint(); }

 private:
  void accept();
  void accept_later();
  bool is_current(std::uint64_t attempt) const { return socket_.is_open() && attempt == attempt_; }

  boost::asio::ip::tcp::acceptor socket_;
  boost::asio::steady_timer pause_;
  const OnClient on_client_;
  std::uint64_t attempt_ = 0;  // Counted by start_over().
};

}  // namespace distrun
