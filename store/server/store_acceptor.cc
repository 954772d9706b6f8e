#include "store/server/store_acceptor.h"

#include <chrono>
#include <utility>

namespace distrun {

namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

// If descriptors or memory run out.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

}  // namespace

StoreAcceptor::StoreAcceptor(tcp::acceptor socket, OnClient on_client)
    : socket_(std::move(socket)),
      pause_(socket_.get_executor()),
      on_client_(std::move(on_client)) {}

void StoreAcceptor::accept() {
  socket_.async_accept(
      [self = shared_from_this(), attempt = attempt_](error_code error, tcp::socket client) {
        // Drops clients of the last attempt; start_over() has called accept() for the new one.
        if (!self->is_current(attempt)) return;
        // Out of descriptors or memory, or the socket does not listen any more.
        if (error && error != boost::asio::error::connection_aborted) return self->accept_later();
        if (!error) self->on_client_(std::move(client));
        self->accept();
      });
}

// Accepting again at once would be a busy loop; the client stays in the kernel's queue.
void StoreAcceptor::accept_later() {
  pause_.expires_after(kAcceptPause);
  pause_.async_wait([self = shared_from_this(), attempt = attempt_](error_code canceled) {
    if (!canceled && self->is_current(attempt)) self->accept();
  });
}

void StoreAcceptor::start_over() {
  ++attempt_;
  pause_.cancel();
  error_code ignored;
  socket_.cancel(ignored);
  // Clients in the queue connected during the last attempt, and may have sent requests.
  error_code error;
  socket_.non_blocking(true, error);
  while (!error || error == boost::asio::error::connection_aborted) {
    tcp::socket gone(socket_.get_executor());
    socket_.accept(gone, error);
  }
  accept();
}

void StoreAcceptor::close() {
  error_code ignored;
  socket_.close(ignored);
  pause_.cancel();
}

}  // namespace distrun
