// For tests of nodes: node 0 and others on real sockets, in one event loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <gtest/gtest.h>

#include "distrun/store_server.h"
#include "launcher/nodes/nodes_host.h"
#include "launcher/nodes/nodes_member.h"
#include "store/protocol/request.h"
#include "store/server/store_server_internals.h"
#include "store/test/frames.h"

namespace distrun::testing {

namespace asio = boost::asio;
using asio::ip::tcp;

inline JoinRequest join_request(int node, int nodes = 2) {
  return {.run_id = "run",
          .node = node,
          .nodes = nodes,
          .role = "default",
          .host = "host" + std::to_string(node)};
}

// What a node has reported.
struct NodesLog {
  std::vector<NodeOrder> orders;
  std::vector<std::string> errors, notices;
  std::vector<int> renewed;
  std::vector<NodeOperations> operations;
  std::vector<RankFlight> flights;
  std::vector<std::pair<int, std::string>> texts;  // And the node that sent each.

  NodesHandlers handlers() {
    return {
        .on_order = [this](const NodeOrder& order) { orders.push_back(order); },
        .on_renew_store = [this](int attempt) { renewed.push_back(attempt); },
        .on_error = [this](const Error& error) { errors.push_back(error.message); },
        .on_operations = [this](const NodeOperations& all) { operations.push_back(all); },
        .on_flight = [this](const RankFlight& flight) { flights.push_back(flight); },
        .on_text = [this](int node, const std::string& text) { texts.emplace_back(node, text); },
        .on_notice = [this](const std::string& text) { notices.push_back(text); }};
  }
};

class NodesFixture : public ::testing::Test {
 protected:
  // Starts node 0, on a free port by default.
  void host(int nodes = 2, NodesHost::Options options = {}, std::uint16_t port = 0) {
    host(join_request(0, nodes), options, port);
  }

  void host(const JoinRequest& own, NodesHost::Options options = {}, std::uint16_t port = 0) {
    host_.emplace(io_, own, options, host_log_.handlers());
    const auto take = [this](tcp::socket socket, std::string received) {
      if (host_) host_->take(std::move(socket), std::move(received));
    };
    const auto check_key = [this](const tcp::endpoint& client, std::string_view key) {
      return host_ ? host_->check_key(client, key) : Result<bool>(false);
    };
    store_ = StoreServerInternals::listen(io_, {.port = port}, take, check_key).value();
    port_ = store_->port();
    host_->join();
  }

  void unhost() {
    host_.reset();
    store_.reset();
  }

  NodesMember& member(const JoinRequest& asks, NodesLog& log, NodesMember::Options options = {}) {
    options.address = {.host = address_, .port = port_};
    members_.push_back(std::make_unique<NodesMember>(io_, asks, options, log.handlers()));
    members_.back()->join();
    return *members_.back();
  }

  // Runs the event loop until `holds`, up to ten seconds.
  template <class Condition>
  bool comes_to(const Condition& holds) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      io_.restart();
      io_.run_one_until(deadline);
    }
    return holds();
  }

  bool both_start() {
    return comes_to([&] { return host_log_.orders.size() == 1 && log_.orders.size() == 1; }) &&
           std::holds_alternative<StartNode>(log_.orders[0]);
  }

  // Sends `bytes` as a node; true if node 0 closes the connection within ten seconds.
  bool is_dropped(const std::string& bytes) {
    return is_closed_after(std::string(1, static_cast<char>(kNodeGreeting)) + bytes);
  }

  // As a client of the store that sets a key.
  bool is_refused_with(const std::string& key) {
    return is_closed_after(greeting() + frame(RequestCode::kSet, text(key) + text("")));
  }

  bool is_closed_after(const std::string& bytes) {
    tcp::socket socket(io_);
    socket.connect({asio::ip::make_address("127.0.0.1"), port_});
    socket.send(asio::buffer(bytes));
    bool dropped = false;
    std::string answer;
    asio::async_read(socket, asio::dynamic_buffer(answer),
                     [&](auto, std::size_t) { dropped = true; });
    const bool came = comes_to([&] { return dropped; });
    socket.close();
    io_.restart();
    io_.poll();
    return came;
  }

  asio::io_context io_;
  std::unique_ptr<StoreServer> store_;
  std::string address_ = "127.0.0.1";
  std::uint16_t port_ = 0;
  NodesLog host_log_, log_;
  std::optional<NodesHost> host_;
  std::vector<std::unique_ptr<NodesMember>> members_;
};

// Another server, which sends `answer` to each client.
class AnsweringServer {
 public:
  AnsweringServer(asio::io_context& io, std::string answer)
      : acceptor_(io, {asio::ip::make_address("127.0.0.1"), 0}), answer_(std::move(answer)) {
    accept();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int connections() const { return static_cast<int>(sockets_.size()); }

 private:
  void accept() {
    acceptor_.async_accept([this](auto error, tcp::socket socket) {
      if (error) return;
      if (!answer_.empty()) socket.send(asio::buffer(answer_));
      sockets_.push_back(std::move(socket));
      accept();
    });
  }
  tcp::acceptor acceptor_;
  std::string answer_;
  std::deque<tcp::socket> sockets_;
};

}  // namespace distrun::testing
