// A world of one rank, for tests of how a group comes about.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace distrun {

// A TCP store that this process hosts at a port that was free, and the variables RANK, WORLD_SIZE,
// MASTER_ADDR and MASTER_PORT, by which init_process_group() hosts the same one: to look for a
// free port first would leave time for another process to take it.  Keep the store meanwhile.
c10::intrusive_ptr<c10d::TCPStore> become_the_only_rank();

}  // namespace distrun
