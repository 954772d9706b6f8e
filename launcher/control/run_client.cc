#include "launcher/control/run_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/os/socket_peer.h"
#include "common/os/unique_fd.h"
#include "common/units.h"

namespace distrun {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kOfAnother = "the run belongs to another user, or it has just ended";
constexpr std::size_t kAnswerBytesMax = 64 * kMiB;

Result<UniqueFd> connect_to(const RunAddress& run) {
  const std::string name = socket_name(run);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return Error::from_errno("open a socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == ECONNREFUSED) return Error{ErrorKind::kNotFound, "the run has ended"};
    return Error::from_errno("connect to the run");
  }
  // Any user could open a socket of that name. Root may ask any run.
  const auto server = socket_peer(socket.get());
  if (!server) return Error::from_errno("connect to the run");
  if (server->uid != ::geteuid() && server->uid != 0 && ::geteuid() != 0) {
    return Error{ErrorKind::kSystem, kOfAnother};
  }
  return socket;
}

// Blocks until the socket has `events`, or until `end`.
Result<void> wait_for(const UniqueFd& socket, short events, Clock::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd waits{socket.get(), events, 0};
    const int ready = ::poll(&waits, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (ready > 0) return {};
    if (ready == 0)
      return Error{ErrorKind::kTimedOut, "the run does not answer: it is suspended, or busy"};
    if (errno != EINTR) return Error::from_errno("wait for the run");
  }
}

}  // namespace

Result<std::string> ask_run(const RunAddress& run, const std::string& question,
                            std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  auto socket = connect_to(run);
  if (!socket) return socket.error();
  const std::string line = question + '\n';
  // The question is short enough for the socket's buffer.
  const auto sent = ::send(socket->get(), line.data(), line.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EPIPE) return Error::from_errno("ask the run");  // EPIPE: see below.
  std::string answer;
  std::array<char, 16 * kKiB> piece;
  for (;;) {
    if (const auto ready = wait_for(*socket, POLLIN, end); !ready) return ready.error();
    const auto got = ::recv(socket->get(), piece.data(), piece.size(), 0);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) break;  // ECONNRESET: the run refused this user.
    answer.append(piece.data(), static_cast<std::size_t>(got));
    if (answer.size() > kAnswerBytesMax) break;
  }
  constexpr std::string_view kOk = "ok\n";
  if (answer.starts_with(kOk)) return answer.substr(kOk.size());
  if (answer.empty()) {
    return Error{ErrorKind::kSystem, kOfAnother};
  }
  return Error{ErrorKind::kProtocol,
               "the run uses a version of distrun that does not support this request"};
}

}  // namespace distrun
