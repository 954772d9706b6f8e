#include "distrun/store_server.h"

#include <utility>

#include "store/network/endpoint_text.h"
#include "store/server/listening_socket.h"
#include "store/server/store_acceptor.h"
#include "store/server/store_admission.h"
#include "store/server/store_connections.h"
#include "store/server/store_server_internals.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;

struct StoreServer::Impl {
  Impl(tcp::acceptor socket, StoreAdmission admits, StoreConnections::Settings settings)
      : admission(std::move(admits)),
        connections(std::make_shared<StoreConnections>(
            socket.get_executor(), socket.local_endpoint(), std::move(settings))),
        acceptor(std::make_shared<StoreAcceptor>(
            std::move(socket), [this](tcp::socket client) { welcome(std::move(client)); })) {}

  // Pending handlers of the event loop then find everything closed.
  ~Impl() {
    acceptor->close();
    connections->start_over();
  }

  void welcome(tcp::socket client) {
    boost::system::error_code error;
    const tcp::endpoint remote = client.remote_endpoint(error);
    if (!error) client.non_blocking(true, error);
    if (error) return;  // The client has left.
    const auto admitted = admission.check(client, remote, connections->count());
    if (!admitted) return connections->note_refused(remote, admitted.error());
    connections->add(std::move(client), remote);
  }

  StoreAdmission admission;
  const std::shared_ptr<StoreConnections> connections;
  const std::shared_ptr<StoreAcceptor> acceptor;
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() = default;

Result<std::unique_ptr<StoreServer>> StoreServer::listen(asio::io_context& io,
                                                         const Options& options) {
  return StoreServerInternals::listen(io, options, nullptr);
}

Result<std::unique_ptr<StoreServer>> StoreServerInternals::listen(
    asio::io_context& io, const StoreServer::Options& options, TakeNode take_node,
    CheckKey check_key) {
  auto admission = StoreAdmission::open(options);
  if (!admission) return admission.error();
  auto socket = listening_socket(io, options);
  if (!socket) return socket.error();
  StoreConnections::Settings settings{options.limits, options.on_refused, std::move(take_node),
                                      std::move(check_key)};
  auto impl = std::make_unique<StoreServer::Impl>(std::move(*socket), std::move(*admission),
                                                  std::move(settings));
  impl->acceptor->start();
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

const StoreTable& StoreServerInternals::table(const StoreServer& server) {
  return server.impl_->connections->table();
}

std::uint16_t StoreServer::port() const { return impl_->acceptor->endpoint().port(); }

std::string StoreServer::address() const { return text_of(impl_->acceptor->endpoint()); }

std::size_t StoreServer::connection_count() const { return impl_->connections->count(); }

StoreStatus StoreServer::status() const { return impl_->connections->status(); }

void StoreServer::start_over() {
  impl_->connections->start_over();
  impl_->acceptor->start_over();
}

}  // namespace distrun
