#include "store/network/local_peer.h"

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
#include "store/network/socket_table.h"

namespace distrun {

namespace {

using boost::asio::ip::tcp;

constexpr const char* kWhat = "ask the kernel for the owner of a socket (sock_diag)";

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

// Whether two sockets at these addresses cannot share a port. "::" counts as dual-stack, though a
// socket may be IPv6 only.
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
  // Without a matching connection, the kernel returns a socket that listens at the address. A
  // socket that no process holds has no inode, and its uid means nothing.
  if (found.id.idiag_dport != id.idiag_dport || found.idiag_state == TCP_LISTEN ||
      found.idiag_inode == 0) {
    return std::optional<LocalSocket>();
  }
  return std::optional(LocalSocket{found.idiag_uid, found.idiag_inode});
}

Result<std::vector<LocalSocket>> LocalSockets::in_the_way_of(const tcp::endpoint& wanted) {
  auto table = SocketTable::open();
  if (!table) return table.error();
  const auto address = unmapped(wanted).address();
  for (const std::uint32_t states : {1U << TCP_LISTEN, ~(1U << TCP_LISTEN)}) {
    const auto rows = table->rows({.port = wanted.port(), .states = states});
    if (!rows) return rows.error();
    std::vector<LocalSocket> sockets;
    for (const SocketRow& row : *rows) {
      if (overlap(address, row.address)) sockets.push_back({row.uid, row.inode});
    }
    if (!sockets.empty()) return sockets;
  }
  return std::vector<LocalSocket>();
}

}  // namespace distrun
