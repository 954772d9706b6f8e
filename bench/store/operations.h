// The operations that a benchmark's clients repeat, with one request in flight.
//
//     const auto measured =
//         operation.prepare({.port = port, .client = 0, .clients = 8, .count = 100});
//     measured();
//
// Every server gets the same bytes. Frames are prepared, so that mostly the server and the sockets
// are measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace distrun::bench {

struct Task {
  std::uint16_t port = 0;
  int client = 0;  // 0 … clients - 1.
  int clients = 1;
  int count = 1;  // Operations per client.
  int run = 0;    // Unique per server, for keys that can be used only once.
};

struct Operation {
  std::string_view name;
  std::function<void()> (*prepare)(const Task& task);
  int count = 0;       // Operations per client; 0: as many as the time allows.
  int clients = 0;     // 0: measured with each number of clients.
  bool fresh = false;  // Requires empty servers.
};

// In the order of the table.
const std::vector<Operation>& operations();

}  // namespace distrun::bench
