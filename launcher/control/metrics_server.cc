#include "launcher/control/metrics_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <fmt/format.h>

#include "common/units.h"
#include "store/network/endpoint_text.h"
#include "store/server/listening_socket.h"

namespace distrun {

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kRequestBytesMax = 16 * kKiB, kMetricsConnectionsMax = 16;
// From the connection to its end.
constexpr std::chrono::seconds kRequestTimeout{10};
constexpr std::chrono::milliseconds kAcceptPause{100};

// `fields` are lines of the header. Only Beast's parser is used: its connections and responses
// would take twice as long to compile.
std::string response_text(std::string_view status, std::string_view fields, std::string_view body) {
  return fmt::format("HTTP/1.1 {}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}", status,
                     fields, body.size(), body);
}

std::string refusal_text(std::string_view status, std::string_view body) {
  return response_text(status, "Content-Type: text/plain; charset=utf-8\r\n", body);
}

}  // namespace

struct MetricsServer::Impl : std::enable_shared_from_this<Impl> {
  Impl(tcp::acceptor listening, Text to_write)
      : acceptor(std::move(listening)), pause(acceptor.get_executor()), text(std::move(to_write)) {}

  struct Request {
    Request() {
      parser.eager(true);
      parser.header_limit(kRequestBytesMax);
    }
    std::array<char, kRequestBytesMax> bytes;
    std::size_t size = 0;  // So many of `bytes` are not parsed yet.
    http::request_parser<http::empty_body> parser;
  };

  struct Connection {
    explicit Connection(tcp::socket accepted)
        : socket(std::move(accepted)), timeout(socket.get_executor()) {}
    tcp::socket socket;
    asio::steady_timer timeout;
    Request request;
    std::string response;
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  void accept() {
    acceptor.async_accept([self = shared_from_this()](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      // Out of descriptors: accepting again at once would be a busy loop.
      if (error && error != asio::error::connection_aborted) return self->accept_later();
      if (!error && self->connections.size() < kMetricsConnectionsMax) {
        self->begin(std::make_shared<Connection>(std::move(socket)));
      }
      if (self->acceptor.is_open()) self->accept();
    });
  }

  void accept_later() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([self = shared_from_this()](error_code canceled) {
      if (!canceled && self->acceptor.is_open()) self->accept();
    });
  }

  void begin(const ConnectionPtr& connection) {
    connections.insert(connection);
    connection->timeout.expires_after(kRequestTimeout);
    connection->timeout.async_wait([self = shared_from_this(), connection](error_code error) {
      if (!error) self->end(connection);
    });
    read(connection);
  }

  void read(const ConnectionPtr& connection) {
    connection->socket.async_read_some(
        asio::buffer(connection->request.bytes) + connection->request.size,
        [self = shared_from_this(), connection](error_code error, std::size_t more) {
          if (error || !self->text) return self->end(connection);
          connection->request.size += more;
          self->parse(connection);
        });
  }

  void parse(const ConnectionPtr& connection) {
    auto& [bytes, size, parser] = connection->request;
    error_code error;
    const std::size_t parsed = parser.put(asio::buffer(bytes.data(), size), error);
    std::copy(bytes.begin() + parsed, bytes.begin() + size, bytes.begin());
    size -= parsed;
    const bool is_partial = !error || error == http::error::need_more;
    if (is_partial && parser.is_done()) return reply(connection, answer(parser.get()));
    if (is_partial && size < bytes.size()) return read(connection);
    reply(connection, refusal_text("400 Bad Request", "malformed request\n"));
  }

  void reply(const ConnectionPtr& connection, std::string response) {
    connection->response = std::move(response);
    asio::async_write(connection->socket, asio::buffer(connection->response),
                      [self = shared_from_this(), connection](error_code failed, std::size_t) {
                        if (failed) return self->end(connection);
                        connection->socket.shutdown(tcp::socket::shutdown_send, failed);
                        self->await_close(connection);
                      });
  }

  std::string answer(const http::request<http::empty_body>& request) const {
    const std::string_view target(request.target().data(), request.target().size());
    if (target.substr(0, target.find('?')) != "/metrics") {
      return refusal_text("404 Not Found", "the metrics are at /metrics\n");
    }
    if (request.method() != http::verb::get) {
      return response_text("405 Method Not Allowed", "Allow: GET\r\n", "only GET is supported\n");
    }
    return response_text("200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
                         text());
  }

  // If this end closed first, with a request that was not read, the client could lose the answer.
  void await_close(const ConnectionPtr& connection) {
    connection->socket.async_read_some(
        asio::buffer(connection->request.bytes),
        [self = shared_from_this(), connection](error_code error, std::size_t) {
          error ? self->end(connection) : self->await_close(connection);
        });
  }

  void end(const ConnectionPtr& connection) {
    connection->timeout.cancel();
    error_code ignored;
    connection->socket.close(ignored);
    connections.erase(connection);
  }

  void close() {
    text = nullptr;
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    for (const auto& connection : std::exchange(connections, {})) {
      connection->timeout.cancel();
      connection->socket.close(ignored);
    }
  }

  tcp::acceptor acceptor;
  asio::steady_timer pause;
  Text text;
  std::set<ConnectionPtr> connections;
};

MetricsServer::MetricsServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() { impl_->close(); }

Result<std::unique_ptr<MetricsServer>> MetricsServer::open(asio::io_context& io,
                                                           const std::string& host,
                                                           std::uint16_t port, Text text) {
  auto listening = listening_socket(io, {.host = host, .port = port});
  if (!listening) return listening.error();
  auto impl = std::make_shared<Impl>(std::move(*listening), std::move(text));
  impl->accept();
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

std::string MetricsServer::url() const {
  error_code ignored;
  return "http://" + text_of(impl_->acceptor.local_endpoint(ignored)) + "/metrics";
}

}  // namespace distrun
