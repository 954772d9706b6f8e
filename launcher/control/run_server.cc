#include "launcher/control/run_server.h"

#include <chrono>
#include <set>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <unistd.h>

#include "common/os/socket_peer.h"

namespace distrun {

namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::size_t kQuestionBytesMax = 256, kConnectionsMax = 16;
constexpr std::chrono::seconds kConnectionTimeout{30};

bool is_trusted(stream_protocol::socket& socket) {
  const auto peer = socket_peer(socket.native_handle());
  return peer && (peer->uid == ::geteuid() || peer->uid == 0);
}

}  // namespace

struct RunServer::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, Answer to) : acceptor(io), answer(std::move(to)) {}

  struct Connection {
    explicit Connection(stream_protocol::socket accepted)
        : socket(std::move(accepted)), timeout(socket.get_executor()) {}
    stream_protocol::socket socket;
    asio::steady_timer timeout;
    std::string text;  // The question, then the answer.
  };

  void accept() {
    acceptor.async_accept(
        [self = shared_from_this()](error_code error, stream_protocol::socket socket) {
          if (error == asio::error::operation_aborted) return;
          if (!error && self->connections.size() < kConnectionsMax && is_trusted(socket)) {
            self->read(std::make_shared<Connection>(std::move(socket)));
          }
          if (self->acceptor.is_open()) self->accept();
        });
  }

  void read(const std::shared_ptr<Connection>& connection) {
    connections.insert(connection);
    connection->timeout.expires_after(kConnectionTimeout);
    connection->timeout.async_wait([self = shared_from_this(), connection](error_code error) {
      if (!error) self->end(connection);
    });
    asio::async_read_until(connection->socket,
                           asio::dynamic_buffer(connection->text, kQuestionBytesMax), '\n',
                           [self = shared_from_this(), connection](error_code error, std::size_t) {
                             if (error) return self->end(connection);
                             self->reply(connection);
                           });
  }

  void reply(const std::shared_ptr<Connection>& connection) {
    const std::string question = connection->text.substr(0, connection->text.find('\n'));
    const auto text = answer ? answer(question) : std::nullopt;
    connection->text = text ? "ok\n" + *text : "unknown question\n";
    asio::async_write(connection->socket, asio::buffer(connection->text),
                      [self = shared_from_this(), connection](error_code, std::size_t) {
                        self->end(connection);
                      });
  }

  void end(const std::shared_ptr<Connection>& connection) {
    connection->timeout.cancel();
    error_code ignored;
    connection->socket.close(ignored);
    connections.erase(connection);
  }

  void close() {
    answer = nullptr;
    error_code ignored;
    acceptor.close(ignored);
    for (const auto& connection : std::exchange(connections, {})) {
      connection->timeout.cancel();
      connection->socket.close(ignored);
    }
  }

  stream_protocol::acceptor acceptor;
  Answer answer;
  std::set<std::shared_ptr<Connection>> connections;
};

RunServer::RunServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
RunServer::~RunServer() { impl_->close(); }

Result<std::unique_ptr<RunServer>> RunServer::open(asio::io_context& io, const RunAddress& address,
                                                   Answer answer) {
  auto impl = std::make_shared<Impl>(io, std::move(answer));
  error_code error;
  const stream_protocol::endpoint endpoint(std::string(1, '\0') + socket_name(address));
  impl->acceptor.open(endpoint.protocol(), error);
  if (!error) impl->acceptor.bind(endpoint, error);
  if (!error) impl->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Error::from_errno("open the socket for distrun stacks", error.value());
  impl->accept();
  return std::unique_ptr<RunServer>(new RunServer(std::move(impl)));
}

}  // namespace distrun
