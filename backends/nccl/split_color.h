// The colour of a group for ncclCommSplit(), which puts ranks with the same colour into one group.
#pragma once

#include <vector>

namespace distrun::internal {

// From 0 to the largest int; the same on each rank. `ranks` are the global ranks, in order.
//
// Python's colour, so that C++ and Python ranks can split one group: the hash of the tuple.
// Sources: torch/distributed/distributed_c10d.py (_process_group_color); CPython's
// Objects/tupleobject.c (a variant of xxHash, the same in Python 3.8 and later).
int split_color(const std::vector<int>& ranks);

}  // namespace distrun::internal
