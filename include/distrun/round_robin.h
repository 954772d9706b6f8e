// A backend that distributes collectives over several other backends (c10d::Backend) of the same
// ranks.  The first collective runs in the first backend, the second collective in the second
// backend, and so on.  After the last backend, the first backend is used again.
//
//     const auto all = make_round_robin({gloo_a, gloo_b});
//     all->allreduce(xs)->wait();  // In gloo_a.
//     all->allreduce(ys)->wait();  // In gloo_b.
//
// Use this backend to run collectives in parallel.  The other backends work in parallel if each has
// its own connections, threads or streams.
//
// Every rank must issue the same collectives in the same order, so that all ranks use the same
// backend for a collective.  If a collective throws, the next collective still uses the next
// backend.
//
// send() and recv() throw c10::Error, because after them only two ranks would use the next backend.
// barrier() throws c10::Error, because the barrier of one backend does not wait for collectives in
// other backends.  setTimeout(), abort() and shutdown() apply to all backends.  Call other
// functions of c10d::Backend, such as those for timing and hooks, on the backends themselves.
//
// Thread safety: one thread at a time.
// Cost: the cost of the other backends.  The distribution costs nothing.
// PyTorch source: torch/csrc/distributed/c10d/ProcessGroupRoundRobin.hpp in older releases.
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// Returns a backend that distributes collectives over `groups` and keeps them alive.  Its
// getBackendName() returns "round_robin".
//
// Throws: c10::Error if the list is empty, or if a backend is null.
// Also throws c10::Error if the backends have different ranks or sizes.
c10::intrusive_ptr<c10d::Backend> make_round_robin(
    std::vector<c10::intrusive_ptr<c10d::Backend>> groups);

}  // namespace distrun
