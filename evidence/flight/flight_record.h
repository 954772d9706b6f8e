// flight_record reads a dump of c10d's flight recorder, which a rank has written.
//
//     const auto dump = read_pickle(bytes);
//     const FlightRecord record = flight_record(*dump, /*world_size=*/4);
//     for (const Operation& operation : record.operations) table.add(rank, operation);
//
// ProcessGroupNCCL records each operation when the program starts it, and knows from CUDA events
// whether it has ended: other than records of distrun, these tell where a GPU is. An operation on a
// GPU counts as entered when it is in the queue of its stream.
//
// The format is that of FlightRecorder::dump() (torch/csrc/distributed/c10d/FlightRecorder.hpp),
// version 2. Entries that lack something are left out, and so is the end of sends and receives: the
// recorder does not tell of which it knows the end. Texts are printable and short. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/operations/operation.h"

namespace distrun {

struct FlightRecord {
  std::vector<Operation> operations;             // Oldest first.
  std::map<std::string, std::set<int>> members;  // Of groups: ranks of the run.
};

// `world_size`: the size of the default group.
FlightRecord flight_record(const nlohmann::json& dump, int world_size);

// Those that CollectiveTable::line() needs: of each group, the first that is in progress and the
// last.
std::vector<Operation> first_and_last(const std::vector<Operation>& operations);

}  // namespace distrun
