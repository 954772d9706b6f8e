// A backend that spreads collectives over several groups of the same ranks: the first goes to the
// first group, the second to the second, and so on in a circle.
//
//     const auto group = make_round_robin({gloo_a, gloo_b});
//     group->allreduce(xs)->wait();  // by gloo_a
//     group->allreduce(ys)->wait();  // by gloo_b
//
// What it is for: groups with a connection, a thread or a stream each can work side by side.
// Older releases of torch.distributed had it, as _round_robin_process_groups.
//
// Every rank makes the same collectives in the same order, as for any group: so every rank passes
// each one to the same group.  One that is refused has taken its turn all the same.
//
// send() and recv() are not there, because only two of the ranks would move on; nor is barrier(),
// which on one group says nothing of the others.  They throw c10::Error.
//
// setTimeout(), abort() and shutdown() are for all groups; what else c10d::Backend has (timing,
// errors, hooks, splitting) is not there either: ask the groups.
//
// Threads: collectives from one thread at a time.
#pragma once

#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun {

// Its getBackendName() is "round_robin".  Keeps the groups.
//
// Throws c10::Error where there is no group, one is null, or they differ in this rank or in size.
c10::intrusive_ptr<c10d::Backend> make_round_robin(
    std::vector<c10::intrusive_ptr<c10d::Backend>> groups);

}  // namespace distrun
