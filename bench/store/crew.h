// measure() lets a number of client processes work on a server at the same time and says what that
// took.
//
//     const Sample sample = measure(server, 64, [&](int client) {
//       auto connection = std::make_shared<BenchStoreClient>(server.port());  // Not measured.
//       return [connection] { connection->send(…); … };                       // Measured.
//     });
//
// The processes are forked: call it before any thread exists.  A client is prepared, waits at the
// start line for the others, does its part, and keeps its connection until the last has done so:
// the server's figures hold nothing of connecting or closing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "bench/store/server_process.h"

namespace distrun::bench {

struct Sample {
  std::chrono::nanoseconds wall{};  // From the first client's start to the last one's end.
  std::chrono::nanoseconds cpu{};   // Of the server.
  std::ptrdiff_t grown_kib = 0;     // The server's resident memory.
};

// Runs in the client process: prepares, and returns what is measured.  May throw.
using ClientProgram = std::function<std::function<void()>(int client)>;

// Throws std::runtime_error where a client fails or takes longer than a minute; no client is left
// then.
Sample measure(const ServerProcess& server, int clients, const ClientProgram& program);

}  // namespace distrun::bench
