#include "common/os/packet_socket.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>

namespace distrun {

namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(kPacketDescriptorsMax * sizeof(int));

// Keeps errno.
Error failed(const char* what) {
  const int error_number = errno;
  Error error = Error::from_errno(what, error_number);
  if (error_number == EAGAIN) error.kind = ErrorKind::kTimedOut;
  if (error_number == ETOOMANYREFS) {
    error.message += ": more descriptors are in flight than `ulimit -n` allows: raise it";
  }
  if (error_number == EPIPE || error_number == ECONNRESET) error.kind = ErrorKind::kNotFound;
  errno = error_number;
  return error;
}

std::vector<UniqueFd> descriptors_of(msghdr& message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at != nullptr; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t i = 0; i < (at->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> make_packet_sockets() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error::from_errno("make a pair of sockets");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<void> send_packet(int socket, const std::string& bytes,
                         const std::vector<int>& descriptors) {
  if (bytes.size() > kPacketBytesMax || descriptors.size() > kPacketDescriptorsMax) {
    return Error{ErrorKind::kInvalidArgument, "send a packet: it is too large"};
  }
  if (bytes.empty() && descriptors.empty()) {
    return Error{ErrorKind::kInvalidArgument, "send a packet: it is empty"};
  }
  iovec content{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  }
  ssize_t sent = -1;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return failed("send a packet");
  return {};
}

Result<Packet> receive_packet(int socket) {
  Packet packet;
  packet.bytes.resize(kPacketBytesMax);
  iovec content{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, kControlBytes> control{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = -1;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    // ECONNRESET comes once, before the data, if the peer closed without reading everything.
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) return failed("receive a packet");
  packet.bytes.resize(static_cast<std::size_t>(size));
  packet.descriptors = descriptors_of(message);
  packet.has_ended = size == 0 && packet.descriptors.empty();
  const bool some_are_missing = (message.msg_flags & MSG_CTRUNC) != 0;
  if (some_are_missing && packet.descriptors.size() < kPacketDescriptorsMax) {
    return Error{ErrorKind::kSystem,
                 "receive a packet: no descriptors are left: raise `ulimit -n`"};
  }
  if (some_are_missing || (message.msg_flags & MSG_TRUNC) != 0) {
    return Error{ErrorKind::kInvalidArgument, "receive a packet: it is too large"};
  }
  return packet;
}

}  // namespace distrun
