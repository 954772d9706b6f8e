// StoreLimits has the limits of a StoreServer (store_server.h) for requests, connections and
// memory.  LibTorch's server (libuv) has the first three of these limits, with the same values.
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
  // Limits for one request.
  std::size_t key_bytes_max = 8 << 10;        // A key: 8 KiB.
  std::size_t value_bytes_max = 8 << 20;      // A value: 8 MiB, also after an append.
  std::size_t keys_max = 131'072;             // The keys of a check, wait, multi_get or multi_set.
  std::size_t request_bytes_max = 128 << 20;  // The whole request: 128 MiB.
  std::size_t reply_bytes_max = 128 << 20;    // The reply: 128 MiB.

  // The replies that one client has not read: 16 MiB.  If a client exceeds this limit, it is not
  // disconnected, but its next requests wait until it reads its replies.
  std::size_t unread_bytes_max = 16 << 20;

  // The number of connections that are open at the same time.  If a client opens one more
  // connection, the server closes this connection at once.
  std::size_t connections_max = 16'384;

  // The memory of the store: about 4 GiB.  Keys, values, queues, waits, partial requests and unread
  // replies count.  If a request or the buffers of a connection would exceed this limit, the server
  // closes this connection.  Each connection can always use 4 KiB of buffers, so a full store still
  // answers small requests.
  std::size_t memory_bytes_max = std::size_t{4} << 30;
};

}  // namespace distrun
