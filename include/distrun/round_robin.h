// A backend that spreads collectives over several groups of the same ranks, in turn.
//
//     const auto group = make_round_robin({gloo_a, gloo_b});
//     group->allreduce(xs)->wait();  // In gloo_a.
//     group->allreduce(ys)->wait();  // In gloo_b.
//
// Groups with their own connections, threads or streams can then work in parallel.
//
// Every rank issues the same collectives in the same order, and so uses the same group for each.  A
// refused collective takes its turn too.
//
// send(), recv() and barrier() throw c10::Error.  After a send() or recv(), only two ranks would
// move to the next group.  A barrier of one group does not synchronize the other groups.
// setTimeout(), abort() and shutdown() apply to all groups.  Call the groups for everything else
// that c10d::Backend has (timing, errors, hooks, splitting).
//
// Thread safety: one thread at a time.
// PyTorch source: torch/csrc/distributed/c10d/ProcessGroupRoundRobin.hpp in older releases.
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// Returns a backend that keeps the groups.  Its getBackendName() is "round_robin".
//
// Throws: c10::Error if there is no group, one is null, or their ranks or sizes differ.
c10::intrusive_ptr<c10d::Backend> make_round_robin(
    std::vector<c10::intrusive_ptr<c10d::Backend>> groups);

}  // namespace distrun
