// The process and the user at the other end of a Unix socket, as when it was connected or made.
//
//     const auto peer = socket_peer(socket);
//     if (!peer || peer->uid != ::geteuid()) …
//
// nullopt if the descriptor is not a Unix socket. `pid` is 0 if the process is not visible here.
// Thread safety: any thread.
#pragma once

#include <optional>

#include <sys/socket.h>

namespace distrun {

inline std::optional<ucred> socket_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

}  // namespace distrun
