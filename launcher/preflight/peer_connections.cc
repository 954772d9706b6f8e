#include "launcher/preflight/peer_connections.h"

#include <cerrno>
#include <list>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "store/network/look_up.h"

namespace distrun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

std::string reason_of(const error_code& error) {
  if (error.value() == EINVAL) return "the route drops all packets";  // A blackhole route.
  return Error::from_errno("", error.value()).message.substr(2);
}

struct Attempt {
  explicit Attempt(asio::io_context& io, int peer) : socket(io), node(peer) {}

  tcp::socket socket;
  int node;
  bool has_ended = false;
  std::string problem;
};

}  // namespace

struct PeerListener::Impl {
  explicit Impl(std::string own) : acceptor(io), address(std::move(own)) {}

  void accept() {
    acceptor.async_accept([this](const error_code& error, const tcp::socket&) {
      if (!error) accept();
    });
  }

  asio::io_context io{1};
  tcp::acceptor acceptor;
  std::string address;
};

PeerListener::PeerListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PeerListener::PeerListener(PeerListener&&) noexcept = default;
PeerListener::~PeerListener() = default;

Result<PeerListener> PeerListener::listen(const std::string& address) {
  auto impl = std::make_unique<Impl>(address);
  const auto found = look_up(address, 0);
  if (!found) return found.error().with_context("listen at " + address);
  error_code error;
  const tcp::endpoint endpoint = found->front();
  impl->acceptor.open(endpoint.protocol(), error);
  if (!error) impl->acceptor.bind(endpoint, error);
  if (!error) impl->acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) return Error::from_errno("listen at " + address, error.value());
  impl->accept();
  return PeerListener(std::move(impl));
}

std::uint16_t PeerListener::port() const { return impl_->acceptor.local_endpoint().port(); }

std::vector<Unreachable> PeerListener::connect_to(const std::vector<Peer>& peers) {
  std::list<Attempt> attempts;
  std::size_t running = 0;
  asio::steady_timer timer(impl_->io);
  for (const Peer& peer : peers) {
    Attempt& attempt = attempts.emplace_back(impl_->io, peer.node);
    const auto found = look_up(address_from_here(peer.address, impl_->address), peer.port);
    if (!found) {
      attempt.has_ended = true;
      attempt.problem = found.error().message;
      continue;
    }
    ++running;
    attempt.socket.async_connect(found->front(), [&](const error_code& error) {
      if (error == asio::error::operation_aborted) return;
      attempt.has_ended = true;
      if (error) attempt.problem = reason_of(error);
      if (--running == 0) impl_->io.stop();
    });
  }
  timer.expires_after(kConnectMax);
  timer.async_wait([&](const error_code&) { impl_->io.stop(); });
  if (running > 0) impl_->io.run();
  impl_->io.restart();
  std::vector<Unreachable> unreachable;
  for (Attempt& attempt : attempts) {
    if (!attempt.has_ended) {
      attempt.problem =
          fmt::format("no answer within {} s",
                      std::chrono::duration_cast<std::chrono::seconds>(kConnectMax).count());
    }
    if (!attempt.problem.empty()) unreachable.push_back({attempt.node, attempt.problem});
    attempt.socket.close();
  }
  timer.cancel();
  return unreachable;
}

std::string address_from_here(const std::string& peer, const std::string& own) {
  const std::size_t scope = own.find('%');
  if (peer.find('%') == std::string::npos || scope == std::string::npos) return peer;
  return peer.substr(0, peer.find('%')) + own.substr(scope);
}

}  // namespace distrun
