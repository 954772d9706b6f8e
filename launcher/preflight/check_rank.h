// The worker of `distrun check`, one on each node. It examines its node, meets the others through
// the store, and connects to them.
//
//     auto findings = check_as_rank(environment, host);     // In an environment of a worker.
//     if (!findings) return findings.error();               // "rank 2 did not answer within …"
//     for (const std::string& finding : *findings) …        // Of all nodes, on rank 0 only.
//
// If an engine started several tasks on a node, only local rank 0 takes part.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "distrun/result.h"

namespace distrun {

// The first word of distrun's command line in the worker. The second is the node's name.
inline constexpr const char* kCheckRankCommand = "check-rank";

// All nodes have joined already, and a step takes 2 s at most.
inline constexpr std::chrono::milliseconds kCheckStepMax = std::chrono::seconds(30);

// Empty on all ranks but rank 0. Fails with kTimedOut, and names the ranks, if others do not finish
// a step within `step_max`.
Result<std::vector<std::string>> check_as_rank(const Environment& environment,
                                               const std::string& host,
                                               std::chrono::milliseconds step_max = kCheckStepMax);

}  // namespace distrun
