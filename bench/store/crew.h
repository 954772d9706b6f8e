// measure() runs client processes on a server at the same time, and measures the cost.
//
//     const Sample sample = measure(server, 64, [&](int client) {
//       auto connection = std::make_shared<BenchStoreClient>(server.port());  // Not measured.
//       return [connection] { connection->send(…); … };                       // Measured.
//     });
//
// It forks: call it before any thread exists. Clients prepare, wait for each other, do their part,
// and keep their connections until the last is done, so figures contain no connecting or closing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>

#include "bench/store/server_process.h"

namespace distrun::bench {

struct Sample {
  std::chrono::nanoseconds wall{};  // From the first start to the last end.
  std::chrono::nanoseconds cpu{};   // Used by the server.
  std::ptrdiff_t grown_kib = 0;     // Growth of the server's resident memory.
};

// Runs in the client process: prepares, and returns the function to measure. May throw.
using ClientProgram = std::function<std::function<void()>(int client)>;

// Throws std::runtime_error if a client fails or takes longer than a minute. Leaves no client
// running.
Sample measure(const ServerProcess& server, int clients, const ClientProgram& program);

}  // namespace distrun::bench
