// A backend that distributes collectives, in turn, over several other backends (c10d::Backend) of
// the same ranks.
//
//     const auto all = make_round_robin({gloo_a, gloo_b});
//     all->allreduce(xs)->wait();  // In gloo_a.
//     all->allreduce(ys)->wait();  // In gloo_b.
//
// Backends with their own connections, threads or streams can then work in parallel.
//
// Every rank must issue the same collectives in the same order, so that all ranks use the same
// backend for each collective.  A collective that throws takes its turn too.
//
// send() and recv() throw c10::Error, because only two ranks would move on to the next backend.
// barrier() throws c10::Error, because the barrier of one backend does not wait for the collectives
// of the others.  setTimeout(), abort() and shutdown() apply to all backends.  For other functions
// of c10d::Backend (timing, errors, hooks, splitting), call the backends themselves.
//
// Thread safety: one thread at a time.
// PyTorch source: torch/csrc/distributed/c10d/ProcessGroupRoundRobin.hpp in older releases.
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// Returns a backend that keeps `groups`, which are c10d::Backend objects.  Its getBackendName() is
// "round_robin".
//
// Throws: c10::Error if the list is empty, a backend is null, or the ranks or sizes of the backends
// differ.
c10::intrusive_ptr<c10d::Backend> make_round_robin(
    std::vector<c10::intrusive_ptr<c10d::Backend>> groups);

}  // namespace distrun
