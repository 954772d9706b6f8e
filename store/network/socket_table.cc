#include "store/network/socket_table.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace distrun {

namespace {

namespace ip = boost::asio::ip;

constexpr const char* kAsk = "ask the kernel for its TCP sockets (sock_diag)";
// The kernel fills at most this much at once.
constexpr std::size_t kPieceBytes = 32768;

struct RowsRequest {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

ip::address row_address(int family, const __be32 (&from)[4]) {
  if (family == AF_INET) {
    ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), from, bytes.size());
    return ip::address_v4(bytes);
  }
  ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), from, bytes.size());
  const ip::address_v6 address(bytes);
  if (address.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, address);
  return address;
}

// Offsets of tcpi_bytes_acked and tcpi_bytes_received in tcp_info (linux/tcp.h). The C library's
// struct ends before them, and the two headers exclude each other.
constexpr std::size_t kBytesAckedAt = 120, kBytesReceivedAt = 128;

// The sum of both, from a row's attributes. Kernels before 4.1 have a shorter tcp_info.
std::uint64_t bytes_in(const char* at, std::size_t left) {
  while (left >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, at, sizeof(attribute));
    if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > left) return 0;
    if (attribute.rta_type == INET_DIAG_INFO) {
      if (attribute.rta_len < RTA_LENGTH(kBytesReceivedAt + sizeof(std::uint64_t))) return 0;
      std::uint64_t acked = 0, received = 0;
      std::memcpy(&acked, at + RTA_LENGTH(0) + kBytesAckedAt, sizeof(acked));
      std::memcpy(&received, at + RTA_LENGTH(0) + kBytesReceivedAt, sizeof(received));
      return acked + received;
    }
    const std::size_t step = std::min<std::size_t>(RTA_ALIGN(attribute.rta_len), left);
    at += step;
    left -= step;
  }
  return 0;
}

SocketRow row_of(const inet_diag_msg& one, const char* attributes, std::size_t size) {
  return {.address = row_address(one.idiag_family, one.id.idiag_src),
          .peer_address = row_address(one.idiag_family, one.id.idiag_dst),
          .port = ntohs(one.id.idiag_sport),
          .peer_port = ntohs(one.id.idiag_dport),
          .state = one.idiag_state,
          .unread = one.idiag_rqueue,
          .undelivered = one.idiag_wqueue,
          .uid = one.idiag_uid,
          .inode = one.idiag_inode,
          .bytes = bytes_in(attributes, size)};
}

}  // namespace

Result<SocketTable> SocketTable::open() {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return Error::from_errno(kAsk);
  return SocketTable(std::move(netlink));
}

Result<std::vector<SocketRow>> SocketTable::rows(const Question& question) {
  std::vector<SocketRow> rows;
  for (const int family : {AF_INET, AF_INET6}) {
    if (const auto added = add_rows(question, family, rows); !added) return added.error();
  }
  return rows;
}

Result<void> SocketTable::add_rows(const Question& question, int family,
                                   std::vector<SocketRow>& rows) {
  RowsRequest asked{};
  asked.header.nlmsg_len = sizeof(asked);
  asked.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  asked.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  asked.header.nlmsg_seq = ++questions_;
  asked.body.sdiag_family = static_cast<__u8>(family);
  asked.body.sdiag_protocol = IPPROTO_TCP;
  asked.body.idiag_states = question.states;
  asked.body.id.idiag_sport = htons(question.port);
  if (question.bytes) asked.body.idiag_ext = 1U << (INET_DIAG_INFO - 1);
  if (::send(netlink_.get(), &asked, sizeof(asked), 0) < 0) return Error::from_errno(kAsk);

  std::vector<char> answer(kPieceBytes);
  for (;;) {
    // Each recv() makes the kernel queue the next piece before it returns.
    const auto received = ::recv(netlink_.get(), answer.data(), answer.size(), MSG_DONTWAIT);
    if (received < 0) return Error::from_errno(kAsk);
    auto left = static_cast<std::size_t>(received);
    for (const char* at = answer.data(); left >= sizeof(nlmsghdr);) {
      nlmsghdr header;
      std::memcpy(&header, at, sizeof(header));
      if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > left) break;
      if (header.nlmsg_seq == questions_) {
        if (header.nlmsg_type == NLMSG_DONE) return {};
        if (header.nlmsg_type == NLMSG_ERROR) {
          int code = 0;
          if (header.nlmsg_len >= NLMSG_LENGTH(sizeof(code))) {
            std::memcpy(&code, at + NLMSG_HDRLEN, sizeof(code));
          }
          return Error::from_errno(kAsk, -code);
        }
        inet_diag_msg one;
        if (header.nlmsg_len >= NLMSG_LENGTH(sizeof(one))) {
          std::memcpy(&one, at + NLMSG_HDRLEN, sizeof(one));
          const char* attributes = at + NLMSG_SPACE(sizeof(one));
          const auto size = static_cast<std::ptrdiff_t>(header.nlmsg_len) - (attributes - at);
          // The kernel's filter for the port is only a hint.
          const bool fits = question.port == 0 || one.id.idiag_sport == htons(question.port);
          if (one.idiag_inode != 0 && fits) {
            rows.push_back(row_of(one, attributes,
                                  static_cast<std::size_t>(std::max<std::ptrdiff_t>(size, 0))));
          }
        }
      }
      const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), left);
      at += step;
      left -= step;
    }
    if (received == 0) return {};
  }
}

}  // namespace distrun
