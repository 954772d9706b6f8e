// For tests: a store that serves on a thread of its own, and clients that write raw frames.
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
#include <boost/asio/post.hpp>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/unique_fd.h"
#include "store/server.h"
#include "store/testing.h"

namespace distrun::testing {

// A client with blocking calls, each bounded by ten seconds.
class Client {
 public:
  explicit Client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval bound{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }

  // False where the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // `size` bytes, or fewer where the connection ends or ten seconds pass.
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

  bool is_closed_by_peer() {
    char byte;
    const auto got = ::recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  // True once the server has applied everything sent before.
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

  void start(const StoreServer::Options& options) {
    server_ = StoreServer::listen(io_, table_, options).value();
    port_ = server_->port();
    thread_ = std::thread([this] { io_.run(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    boost::asio::post(io_, [this] { server_.reset(); });
    thread_.join();
    io_.restart();
  }

  // Whether `state`, looked at on the server's thread, becomes true within ten seconds.
  bool comes_to(const std::function<bool()>& state) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < deadline) {
      std::promise<bool> seen;
      boost::asio::post(io_, [&] { seen.set_value(state()); });
      if (seen.get_future().get()) return true;
    }
    return false;
  }

  Client greeted_client() {
    Client client(port_);
    client.send(greeting());
    return client;
  }

  boost::asio::io_context io_;
  StoreTable table_;
  std::unique_ptr<StoreServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace distrun::testing
