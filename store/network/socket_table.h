// SocketTable is the kernel's table of TCP sockets of this network namespace, as `ss` shows it.
//
//     auto table = SocketTable::open();
//     if (!table) return table.error();                   // the kernel has no sock_diag(7)
//     auto rows = table->rows({.port = 29500, .states = 1U << TCP_LISTEN});
//
// Does not block.  Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include <boost/asio/ip/address.hpp>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "distrun/result.h"

namespace distrun {

struct SocketRow {
  boost::asio::ip::address address, peer_address;  // IPv4-mapped addresses are IPv4.
  std::uint16_t port = 0, peer_port = 0;
  int state = 0;                  // TCP_ESTABLISHED …
  std::uint32_t unread = 0;       // Bytes received that its process has not read.
  std::uint32_t undelivered = 0;  // Bytes that the peer has not acknowledged.
  uid_t uid = 0;
  std::uint64_t inode = 0;  // Of a process's socket; others are omitted.
  std::uint64_t bytes = 0;  // Received, and sent and acknowledged; 0 unless requested.
};

class SocketTable {
 public:
  // Fails with kSystem if the kernel has no sock_diag(7).
  static Result<SocketTable> open();

  struct Question {
    std::uint16_t port = 0;      // Own port; 0: any.
    std::uint32_t states = ~0U;  // A bit for each state of a TCP socket.
    bool bytes = false;
  };
  // Fails with kSystem.
  Result<std::vector<SocketRow>> rows(const Question& question);

 private:
  explicit SocketTable(UniqueFd netlink) : netlink_(std::move(netlink)) {}
  Result<void> add_rows(const Question& question, int family, std::vector<SocketRow>& rows);

  UniqueFd netlink_;
  std::uint32_t questions_ = 0;
};

}  // namespace distrun
