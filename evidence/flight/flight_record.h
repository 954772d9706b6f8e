// operations_in returns the operations that a dump of c10d's flight recorder contains, oldest
// first.
//
//     const auto dump = read_pickle(bytes);
//     for (const Operation& operation : operations_in(*dump, 4)) table.add(rank, operation);
//
// ProcessGroupNCCL records each operation when the program starts it, and knows from CUDA events
// whether it has ended: other than records of distrun, these tell where a GPU is. An operation on a
// GPU counts as entered when it is in the queue of its stream.
//
// The format is that of FlightRecorder::dump() (torch/csrc/distributed/c10d/FlightRecorder.hpp),
// version 2. Entries that lack something are left out, and so is the end of sends and receives: the
// recorder does not tell of which it knows the end. Pure.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

#include "common/operations/operation.h"

namespace distrun {

// `world_size`: the size of the default group.
std::vector<Operation> operations_in(const nlohmann::json& dump, int world_size);

}  // namespace distrun
