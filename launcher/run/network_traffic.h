// The TCP traffic of processes, as counted by the kernel.
//
//     auto traffic = NetworkTraffic::open();
//     if (!traffic) …                                    // the kernel does not tell
//     traffic->bytes(pids, /*without_port=*/29500)
//
// `without_port` excludes traffic to the store, which waiting ranks poll. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include <sys/types.h>

#include "distrun/result.h"
#include "store/network/socket_table.h"

namespace distrun {

class NetworkTraffic {
 public:
  // Fails with kSystem.
  static Result<NetworkTraffic> open();

  // Bytes sent and received on the processes' current connections. If the kernel does not say, the
  // last value.
  std::uint64_t bytes(const std::vector<pid_t>& processes, std::uint16_t without_port);

 private:
  explicit NetworkTraffic(SocketTable table) : table_(std::move(table)) {}
  SocketTable table_;
  std::uint64_t last_ = 0;
};

}  // namespace distrun
