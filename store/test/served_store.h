// For tests: a store served in its own thread, and clients that send raw frames.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/os/unique_fd.h"
#include "distrun/store_server.h"
#include "store/server/store_server_internals.h"
#include "store/test/frames.h"

namespace distrun::testing {

// Calls block, and fail after ten seconds.
class Client {
 public:
  explicit Client(std::uint16_t port, const std::string& host = "127.0.0.1")
      : socket_(::socket(host.find(':') == std::string::npos ? AF_INET : AF_INET6,
                         SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval bound{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
    const int now = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
    const boost::asio::ip::tcp::endpoint to(boost::asio::ip::make_address(host), port);
    EXPECT_EQ(::connect(socket_.get(), to.data(), static_cast<socklen_t>(to.size())), 0);
  }

  // False if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // `size` bytes, or fewer if the connection ends or ten seconds pass.
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size) {
      const auto now = ::recv(socket_.get(), bytes.data() + got, size - got, 0);
      if (now <= 0) break;
      got += static_cast<std::size_t>(now);
    }
    bytes.resize(got);
    return bytes;
  }

  // The client's address, as the server names it.
  std::string address() const {
    boost::asio::ip::tcp::endpoint own;
    auto size = static_cast<socklen_t>(own.capacity());
    EXPECT_EQ(::getsockname(socket_.get(), own.data(), &size), 0);
    return own.address().to_string() + ":" + std::to_string(own.port());
  }

  // Replies can still be read.
  void end_sending() { ::shutdown(socket_.get(), SHUT_WR); }

  bool is_closed_by_peer() {
    char byte;
    const auto got = ::recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  // True once the server has applied every request sent before.
  bool round_trip() {
    send(frame(RequestCode::kPing, bytes_of<std::uint32_t>(7)));
    return receive(4) == bytes_of<std::uint32_t>(7);
  }

 private:
  UniqueFd socket_;
};

class StoreServerTest : public ::testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override { stop(); }

  void start(const StoreServer::Options& options,
             const StoreServerInternals::TakeNode& take_node = nullptr,
             const StoreServerInternals::CheckKey& check_key = nullptr) {
    server_ = StoreServerInternals::listen(io_, options, take_node, check_key).value();
    port_ = server_->port();
    thread_ = std::thread([this] { io_.run(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    boost::asio::post(io_, [this] { server_.reset(); });
    thread_.join();
    io_.restart();
  }

  // Only on the server's thread.
  const StoreTable& table() const { return StoreServerInternals::table(*server_); }

  // Calls look() on the server's thread.
  template <class Look>
  auto see(const Look& look) {
    std::promise<decltype(look())> seen;
    boost::asio::post(io_, [&] { seen.set_value(look()); });
    return seen.get_future().get();
  }

  // Whether `state`, called on the server's thread, becomes true within ten seconds.
  bool comes_to(const std::function<bool()>& state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      if (see(state)) return true;
    }
    return false;
  }

  Client greeted_client(const std::string& host = "127.0.0.1") {
    Client client(port_, host);
    client.send(greeting());
    return client;
  }

  boost::asio::io_context io_;
  std::unique_ptr<StoreServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace distrun::testing
