// torchrun's flags in a run of several nodes (--nnodes above 1).
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

// The default of --master-port with several nodes, as under torchrun.
inline constexpr std::uint16_t kDefaultNodesPort = 29500;

// The maximum length of a run's id, a role and a host name, with several nodes.
inline constexpr std::size_t kNodeNameBytesMax = 512;

// Fills in the port and the run's id, which all nodes must share. Fails with kInvalidArgument,
// which names the flag. With one node, only checks the node's rank.
Result<void> settle_several_nodes(LaunchOptions& options);

// The time to wait for nodes, from --rdzv-conf "KEY=VALUE,…": `timeout` (torchrun's static
// rendezvous) or `join_timeout` (its c10d), in seconds. nullopt if neither is given. Fails with
// kInvalidArgument.
Result<std::optional<std::chrono::milliseconds>> join_timeout_of(std::string_view rdzv_conf);

}  // namespace distrun
