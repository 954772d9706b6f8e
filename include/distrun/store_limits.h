// StoreLimits limits the requests of clients and the memory of a store.  LibTorch's server has the
// first two limits, with the same values.  It does not have the other limits.
//
//     StoreServer::listen(io, {.limits = {.connections_max = 100}});
//
// The protocol has no reply for a refusal, so the server closes the connection of a client whose
// request exceeds a limit.  Other connections stay open.  `distrun store status` shows the reason.
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

  // About 4 GiB in all for keys, values, queues, waits, partial requests and unread replies.  The
  // server refuses a request, or a connection's buffers, that would exceed this limit.  Each
  // connection can always use 4 KiB, so a full store still answers queries.
  std::size_t memory_bytes_max = std::size_t{4} << 30;
};

}  // namespace distrun
