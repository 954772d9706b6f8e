// The messages of the nodes of `distrun check`, which are JSON in the store.
//
//     store.set(key, encode(NodeCheck{.host = "gpu-1", .findings = {…}, …}));
//     auto report = decode_check(*store.get(key));
//
// Each node first sends its address, and gets those of all. Then it sends its own findings, what
// node 0 compares, and which other nodes it could not reach. All nodes have the same version of
// distrun, so the format has no version. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wall_time.h"
#include "distrun/result.h"

namespace distrun {

struct NodeCheck {
  int node = 0;
  std::string host;
  std::vector<std::string> findings;  // Of this node alone.

  std::string address;  // At which it listens for the other nodes.

  // Compared with the other nodes.
  std::optional<std::string> torch;  // Empty: no PyTorch. nullopt: unknown.
  std::string interface;             // It leads to node 0; empty for loopback.
  std::optional<int> mtu;
  int gpus = 0;
  std::map<std::string, std::string> variables;
};

// A node that another one could not connect to.
struct Unreachable {
  int node = 0;
  std::string problem;  // "no answer within 2 s"
};

struct ReachReport {
  std::vector<WallTime> clock;  // Readings, at the same moments on all nodes.
  std::vector<Unreachable> unreachable;
};

struct Peer {
  int rank = 0, node = 0;  // -1 if the node does not know its number.
  std::string address;
  std::uint16_t port = 0;
};

std::string encode(const NodeCheck& report);
std::string encode(const ReachReport& report);
std::string encode(const std::vector<Peer>& peers);

// Fail with kProtocol.
Result<NodeCheck> decode_check(std::string_view text);
Result<ReachReport> decode_reach(std::string_view text);
Result<std::vector<Peer>> decode_peers(std::string_view text);

}  // namespace distrun
