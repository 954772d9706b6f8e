// What the clients of a benchmark do: one operation, many times over, one in flight.
//
//     const auto measured = operation.prepare({.port = port, .client = 0, .clients = 8, .count =
//     100}); measured();
//
// The same bytes go to every server.  Frames are made while preparing, so that little is measured
// but the server and the sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace distrun::bench {

struct Task {
  std::uint16_t port = 0;
  int client = 0;  // Of `clients`, from 0.
  int clients = 1;
  int count = 1;  // Operations of this client.
  int run = 0;    // No two runs on one server have the same: for keys that are good only once.
};

struct Operation {
  std::string_view name;
  std::function<void()> (*prepare)(const Task& task);
  int count = 0;       // Operations of a client; 0: as many as the time allows.
  int clients = 0;     // The number of clients; 0: each of several.
  bool fresh = false;  // Wants servers that hold nothing yet.
};

// In the order of the table.
const std::vector<Operation>& operations();

}  // namespace distrun::bench
