// Processes that a rank has left behind: its descendants that outlive it become children of the
// process that adopts (launcher/descendants.h), and are known by a variable that the rank was
// given.
//
//     const auto left = end_orphans("DISTRUN_TEST_RANK=k3kQ2a.17", 2s);     // {"4711 (sleep)"}
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace distrun {

// Sends SIGKILL to each child of this process that has `variable`, "NAME=value", in its
// environment, waits for its end, and goes on with those that have become children by that, until
// there is none or the time is over.  A process that has cleared its environment is not found; it
// ends with the run.  Nobody is reaped.  Blocks, mostly for less than a millisecond.
std::vector<std::string> end_orphans(const std::string& variable,
                                     std::chrono::milliseconds timeout);

}  // namespace distrun
