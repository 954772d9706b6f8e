// StoreLimits says what clients may ask of a store, and how much memory it may use.  LibTorch's
// server has the first two limits, with the same values, and none of the others.
//
//     StoreServer::listen(io, {.limits = {.connections_max = 100}});
//
// The protocol has no reply for a refusal: a request that exceeds a limit closes its connection,
// and no other.  `distrun store status` shows the reason.
#pragma once

#include <cstddef>

namespace distrun {

struct StoreLimits {
  // Per request.
  std::size_t key_bytes_max = 8 << 10;        // 8 KiB.
  std::size_t value_bytes_max = 8 << 20;      // 8 MiB, including a value that append extended.
  std::size_t keys_max = 131'072;             // In one check, wait, multi_get or multi_set.
  std::size_t request_bytes_max = 128 << 20;  // 128 MiB in all.
  std::size_t reply_bytes_max = 128 << 20;    // 128 MiB in the reply.

  // Per connection: 16 MiB of replies that it has not read.  Beyond that, its requests wait until
  // it reads.
  std::size_t unread_bytes_max = 16 << 20;

  // Connections at a time.  Another one is closed at once.
  std::size_t connections_max = 16'384;

  // About 4 GiB for everything: keys, values, queues, waits, partial requests and unread replies.
  // The request that exceeds it is refused, and so is the connection whose buffers do.  A
  // connection's first 4 KiB are always granted, so a full store still answers queries.
  std::size_t memory_bytes_max = std::size_t{4} << 30;
};

}  // namespace distrun
