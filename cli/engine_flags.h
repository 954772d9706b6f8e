// Adds the flags by which an engine, such as Slurm or mpirun, places this distrun in its run.
//
//     auto placed = place_by_engine(line, environment);
//     if (placed.error) return *placed.error;
//     line.find("node-rank")->said;           // "SLURM_PROCID"
//
// Flags of the user stay as they are, except that --nnodes becomes the number of tasks where each
// task is one rank.
#pragma once

#include <optional>
#include <string>

#include "cli/command_line.h"
#include "common/os/environment.h"
#include "distrun/result.h"
#include "launcher/engines/engine_facts.h"
#include "launcher/engines/engine_place.h"

namespace distrun {

struct PlacedByEngine {
  std::optional<EngineFacts> facts;  // nullopt: no engine started this process, or it is not asked.
  EnginePlace place;
  std::optional<Error> error;  // Instead of a place: kInvalidArgument.
  bool tells_error = true;     // False: another task tells it.
};

// All tasks of the engine have this error, and the distrun of task 0 prints it.
struct SaidByTask0 {};

// The tasks of a run often see one file system: "report.html" is "report-3.html" for task 3, and
// itself for task 0. What exists and is not a regular file, such as /dev/null, keeps its name.
std::string file_of_task(const std::string& path, int task);

PlacedByEngine place_by_engine(CommandLine& line, const Environment& environment,
                               TasksOfNode tasks = TasksOfNode::kSeveral);

}  // namespace distrun
