#include "bench/store/client.h"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "store/test/frames.h"

namespace distrun::bench {

namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

BenchStoreClient::BenchStoreClient(std::uint16_t port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (!socket_) fail("socket");
  const timeval silence_max{.tv_sec = kSilenceMax.count(), .tv_usec = 0};
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &silence_max, sizeof(silence_max));
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &silence_max, sizeof(silence_max));
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    fail("connect");
  }
  constexpr std::uint32_t kNonce = 4711;
  send(testing::greeting() + testing::frame(RequestCode::kPing, testing::bytes_of(kNonce)));
  if (receive<std::uint32_t>() != kNonce) throw std::runtime_error("ping: wrong reply");
}

void BenchStoreClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0) fail("send");
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
}

void BenchStoreClient::receive(char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = ::recv(socket_.get(), to, size, 0);
    if (got < 0) fail("receive");
    if (got == 0) throw std::runtime_error("receive: the server closed the connection");
    to += got;
    size -= static_cast<std::size_t>(got);
  }
}

void BenchStoreClient::skip(std::size_t size) {
  std::array<char, 256> bytes;
  for (; size > bytes.size(); size -= bytes.size()) receive(bytes.data(), bytes.size());
  receive(bytes.data(), size);
}

}  // namespace distrun::bench
