// A world of one rank.
#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace distrun {

// Hosts a TCP store at a free port, and sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, with
// which init_process_group() shares that store. Keep it: another process could take a port that is
// only looked up.
c10::intrusive_ptr<c10d::TCPStore> become_the_only_rank();

}  // namespace distrun
