// StoreLimits limits the requests of clients and the memory of a store.  LibTorch's server (libuv)
// has the first three limits, with the same values.  It does not have the other limits.
//
//     StoreServer::listen(io, {.limits = {.connections_max = 100}});
//
// The protocol has no error reply, so the server closes the connection of a client whose request
// exceeds a limit.  Other connections stay open.  `distrun store status` shows why a connection was
// closed.
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

  // Per connection: 16 MiB of replies that the client has not read.  With more unread replies, its
  // requests wait until it reads.
  std::size_t unread_bytes_max = 16 << 20;

  // Connections at the same time.  The server closes each further connection at once.
  std::size_t connections_max = 16'384;

  // About 4 GiB in all for keys, values, queues, waits, partial requests and unread replies.  If a
  // request, or the memory for a connection's input and unread replies, would exceed this limit,
  // the server closes the connection.  Each connection can always use 4 KiB, so a full store still
  // answers small requests.
  std::size_t memory_bytes_max = std::size_t{4} << 30;
};

}  // namespace distrun
