// NodeOperations is a message from a node to node 0: what its workers have recorded of their
// collectives since the last one. Each collective comes when it has ended, and if it takes longer,
// also while it is in progress.
//
// In JSON, what ranks have in common is written once:
//
//     {"type": "operations", "attempt": 0, "missed": 0, "time": 1790000000000000000,
//      "calls": [["0", 8, 31, "all_reduce", "Float", "[1000]", 1000, 4, -1]],
//      "ranks": [[0, 4, 4, 57, 0, 251000, true, null, null], …]}
//
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/operations/operation.h"
#include "common/rank.h"

namespace distrun {

struct RankOperation {
  Rank rank;
  Operation operation;  // A collective.
  friend bool operator==(const RankOperation&, const RankOperation&) = default;
};

struct NodeOperations {
  int attempt = 0;
  std::vector<RankOperation> operations;
  std::uint64_t missed = 0;  // Operations that are not in any message.
  int node = 0;              // Set by node 0; not sent.
  friend bool operator==(const NodeOperations&, const NodeOperations&) = default;
};

// At most so many bytes of JSON, for any texts.
std::size_t json_bytes_max(const Operation& operation);

nlohmann::json json_of(const NodeOperations& message);

// Throws std::exception for other data. Texts are printable and short; there is no node and no
// clock error.
NodeOperations node_operations_from(const nlohmann::json& object);

}  // namespace distrun
