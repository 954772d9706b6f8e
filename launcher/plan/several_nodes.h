// What torchrun's flags mean where a run has several nodes (--nnodes above 1), and what cannot be.
//
//     auto settled = settle_several_nodes(options);
//     if (!settled) return settled.error();
//     options.join_timeout = join_timeout_of("timeout=60").value().value_or(options.join_timeout);
//
// Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "distrun/result.h"
#include "launcher/plan/options.h"

namespace distrun {

// What --master-port is for several nodes where it is not given, as under torchrun.
inline constexpr std::uint16_t kDefaultNodesPort = 29500;

// With several nodes, a run's id, a role or a host's name has at most this many bytes.
inline constexpr std::size_t kNodeNameBytesMax = 512;

// Fills in what has another default for several nodes: the port, and the run's id, which all nodes
// must have in common.  Fails with kInvalidArgument, naming the flag.  For one node, it only
// looks at the node's rank.
Result<void> settle_several_nodes(LaunchOptions& options);

// How long nodes are waited for, of --rdzv-conf "KEY=VALUE,…": `timeout`, as for torchrun's static
// rendezvous, or `join_timeout`, as for its c10d; in seconds.  Nothing where neither is there;
// other keys are not looked at.  Fails with kInvalidArgument.
Result<std::optional<std::chrono::milliseconds>> join_timeout_of(std::string_view rdzv_conf);

}  // namespace distrun
