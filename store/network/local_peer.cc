#include "store/network/local_peer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "store/network/endpoint_text.h"

namespace distrun {

namespace {

using boost::asio::ip::tcp;

constexpr const char* kWhat = "ask the kernel for the owner of a socket (sock_diag)";
// The kernel fills at most this much of an answer at once.
constexpr std::size_t kDumpBytes = 32768;

void copy_address(const tcp::endpoint& endpoint, __be32 (&to)[4]) {
  if (endpoint.address().is_v4()) {
    const auto bytes = endpoint.address().to_v4().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  } else {
    const auto bytes = endpoint.address().to_v6().to_bytes();
    std::memcpy(to, bytes.data(), bytes.size());
  }
}

struct Question {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

Question question(int family, std::uint32_t number) {
  Question asked{};
  asked.header.nlmsg_len = sizeof(asked);
  asked.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  asked.header.nlmsg_flags = NLM_F_REQUEST;
  asked.header.nlmsg_seq = number;
  asked.body.sdiag_family = static_cast<__u8>(family);
  asked.body.sdiag_protocol = IPPROTO_TCP;
  asked.body.idiag_states = ~0U;
  return asked;
}

boost::asio::ip::address address_in(int family, const __be32 (&from)[4]) {
  if (family == AF_INET) {
    boost::asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), from, bytes.size());
    return boost::asio::ip::address_v4(bytes);
  }
  boost::asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), from, bytes.size());
  return boost::asio::ip::address_v6(bytes);
}

// Whether two sockets at these addresses cannot share a port.  "::" counts as dual-stack here,
// though a socket may be IPv6 only.
bool overlap(const boost::asio::ip::address& one, const boost::asio::ip::address& other) {
  const auto covers = [](const auto& all, const auto& some) {
    return all.is_unspecified() && (all.is_v6() || some.is_v4());
  };
  return one == other || covers(one, other) || covers(other, one);
}

}  // namespace

Result<LocalSockets> LocalSockets::open() {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return Error::from_errno(kWhat);
  LocalSockets sockets(std::move(netlink));
  const tcp::endpoint none(boost::asio::ip::address_v4::loopback(), 0);
  if (const auto answers = sockets.find(none, none); !answers) return answers.error();
  return sockets;
}

Result<std::optional<LocalSocket>> LocalSockets::find(const tcp::endpoint& own,
                                                      const tcp::endpoint& peer) {
  const tcp::endpoint here = unmapped(own), there = unmapped(peer);
  Question asked = question(here.address().is_v4() ? AF_INET : AF_INET6, ++questions_);
  inet_diag_sockid& id = asked.body.id;
  id.idiag_sport = htons(here.port());
  id.idiag_dport = htons(there.port());
  copy_address(here, id.idiag_src);
  copy_address(there, id.idiag_dst);
  if (here.address().is_v6()) id.idiag_if = here.address().to_v6().scope_id();
  id.idiag_cookie[0] = id.idiag_cookie[1] = static_cast<__u32>(INET_DIAG_NOCOOKIE);
  if (::send(netlink_.get(), &asked, sizeof(asked), 0) < 0) return Error::from_errno(kWhat);

  // The answer is queued when send() returns.
  alignas(nlmsghdr) std::array<char, 4096> answer;
  nlmsghdr header;
  std::size_t size = 0;
  do {
    const auto received = ::recv(netlink_.get(), answer.data(), answer.size(), MSG_DONTWAIT);
    if (received < static_cast<ssize_t>(sizeof(header))) return Error::from_errno(kWhat);
    size = static_cast<std::size_t>(received);
    std::memcpy(&header, answer.data(), sizeof(header));
  } while (header.nlmsg_seq != questions_);

  if (header.nlmsg_type == NLMSG_ERROR && size >= NLMSG_LENGTH(sizeof(int))) {
    int error = 0;
    std::memcpy(&error, answer.data() + NLMSG_HDRLEN, sizeof(error));
    if (error == -ENOENT) return std::optional<LocalSocket>();
    return Error::from_errno(kWhat, -error);
  }
  inet_diag_msg found;
  if (header.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < NLMSG_LENGTH(sizeof(found))) {
    return std::optional<LocalSocket>();
  }
  std::memcpy(&found, answer.data() + NLMSG_HDRLEN, sizeof(found));
  // If no connection matches, the kernel returns a socket that listens at the address.
  // A socket that no process holds has no inode, and its uid means nothing.
  if (found.id.idiag_dport != id.idiag_dport || found.idiag_state == TCP_LISTEN ||
      found.idiag_inode == 0) {
    return std::optional<LocalSocket>();
  }
  return std::optional(LocalSocket{found.idiag_uid, found.idiag_inode});
}

struct LocalSockets::Found {
  boost::asio::ip::address address;
  LocalSocket socket;
};

Result<std::vector<LocalSockets::Found>> LocalSockets::with_port(std::uint16_t port, int family,
                                                                 std::uint32_t states) {
  Question asked = question(family, ++questions_);
  asked.header.nlmsg_flags |= NLM_F_DUMP;
  asked.body.idiag_states = states;
  asked.body.id.idiag_sport = htons(port);
  if (::send(netlink_.get(), &asked, sizeof(asked), 0) < 0) return Error::from_errno(kWhat);

  std::vector<Found> found;
  std::vector<char> answer(kDumpBytes);
  for (;;) {
    // Each recv() makes the kernel queue the next piece before it returns.
    const auto received = ::recv(netlink_.get(), answer.data(), answer.size(), MSG_DONTWAIT);
    if (received < 0) return Error::from_errno(kWhat);
    auto left = static_cast<std::size_t>(received);
    for (const char* at = answer.data(); left >= sizeof(nlmsghdr);) {
      nlmsghdr header;
      std::memcpy(&header, at, sizeof(header));
      if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > left) break;
      if (header.nlmsg_seq == questions_) {
        if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR) return found;
        inet_diag_msg one;
        if (header.nlmsg_len >= NLMSG_LENGTH(sizeof(one))) {
          std::memcpy(&one, at + NLMSG_HDRLEN, sizeof(one));
          if (one.idiag_inode != 0 && one.id.idiag_sport == htons(port)) {
            const tcp::endpoint where(address_in(one.idiag_family, one.id.idiag_src), port);
            found.push_back(
                {unmapped(where).address(), LocalSocket{one.idiag_uid, one.idiag_inode}});
          }
        }
      }
      const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), left);
      at += step;
      left -= step;
    }
    if (received == 0) return found;
  }
}

Result<std::vector<LocalSocket>> LocalSockets::in_the_way_of(const tcp::endpoint& wanted) {
  const auto address = unmapped(wanted).address();
  for (const std::uint32_t states : {1U << TCP_LISTEN, ~(1U << TCP_LISTEN)}) {
    std::vector<LocalSocket> sockets;
    for (const int family : {AF_INET, AF_INET6}) {
      const auto all = with_port(wanted.port(), family, states);
      if (!all) return all.error();
      for (const Found& one : *all) {
        if (overlap(address, one.address)) sockets.push_back(one.socket);
      }
    }
    if (!sockets.empty()) return sockets;
  }
  return std::vector<LocalSocket>();
}

}  // namespace distrun
