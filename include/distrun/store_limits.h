// StoreLimits says what clients may ask of a store, and how much of the machine it may take.
// LibTorch's server has the first two limits, with the same values, and none of the others.
//
//     StoreServer::listen(io, {.limits = {.connections_max = 100}});
//
// The protocol has no answer that says "refused": a request beyond a limit closes the
// connection that it came on, and no other.  `distrun store status` tells why.
#pragma once

#include <cstddef>

namespace distrun {

struct StoreLimits {
  // Of one request: it is refused.
  std::size_t key_bytes_max = 8 << 10;        // 8 KiB.
  std::size_t value_bytes_max = 8 << 20;      // 8 MiB, also of a value that append made longer.
  std::size_t keys_max = 131'072;             // In one check, wait, multi_get or multi_set.
  std::size_t request_bytes_max = 128 << 20;  // 128 MiB in all, …
  std::size_t reply_bytes_max = 128 << 20;    // … and the answer to it.

  // Of one connection: what it has asked for and not read, 16 MiB.  None of its further requests is
  // looked at until it reads.
  std::size_t unread_bytes_max = 16 << 20;

  // Connections at a time: a further one is closed at once.
  std::size_t connections_max = 16'384;

  // Everything, about, 4 GiB: keys, values, queues, who waits for what, requests that have come in
  // part and unread answers.  The request that goes beyond is refused; so is the connection whose
  // buffers do.  No connection is refused for the first 4 KiB of them, so a full store still
  // answers those that only ask.
  std::size_t memory_bytes_max = std::size_t{4} << 30;
};

}  // namespace distrun
