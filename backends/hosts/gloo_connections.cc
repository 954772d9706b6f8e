#include "backends/hosts/gloo_connections.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string_view>
#include <vector>

#include <ATen/ops/empty.h>

namespace distrun::hosts {

namespace {

constexpr std::chrono::milliseconds kNoTime{1};

// Gloo connects to each rank once for each interface that the user names, and chooses by the tag.
int connections_to_a_rank() {
  const char* interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  const std::string_view names = interfaces == nullptr ? "" : interfaces;
  return 1 + static_cast<int>(std::count(names.begin(), names.end(), ','));
}

// Calls `act` with each rank and each of the connections to it, by a tag for it.
template <class Act>
void for_each_connection(const c10d::Backend& gloo, const Act& act) {
  for (int connection = 0; connection < connections_to_a_rank(); ++connection) {
    for (int rank = 0; rank < gloo.getSize(); ++rank) {
      if (rank != gloo.getRank()) act(rank, std::numeric_limits<int>::max() - connection);
    }
  }
}

c10::intrusive_ptr<c10d::Work> receive_nothing(c10d::Backend& gloo, int rank, int tag) {
  std::vector<at::Tensor> nothing = {at::empty({0}, at::kByte)};
  return gloo.recv(nothing, rank, tag);
}

// A connection keeps the error that ended it, and throws it when used again.
std::string error_of_connection(c10d::Backend& gloo, int rank, int tag) {
  try {
    receive_nothing(gloo, rank, tag);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

// A wait that times out closes the connections to all ranks (Gloo,
// transport/tcp/unbound_buffer.cc).
void close_connections(c10d::Backend& gloo) {
  for_each_connection(gloo, [&](int rank, int tag) {
    try {
      receive_nothing(gloo, rank, tag)->wait(kNoTime);
    } catch (const std::exception&) {
      // It times out, or this connection is closed. Then another may still be open.
    }
  });
}

std::optional<int> lost_peer(c10d::Backend& gloo, const std::string& error) {
  if (error.find("]:") == std::string::npos) return std::nullopt;  // It has no address.
  std::optional<int> peer;
  for_each_connection(gloo, [&](int rank, int tag) {
    const std::string its = peer ? "" : error_of_connection(gloo, rank, tag);
    // Errors of c10d end with a backtrace.
    const std::string first_line = its.substr(0, its.find('\n'));
    if (!first_line.empty() && error.find(first_line) != std::string::npos) peer = rank;
  });
  return peer;
}

}  // namespace distrun::hosts
