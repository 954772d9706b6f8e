// The C++ ranks of join_parity_test.py; join_parity_worker.py trains the same. Draws the patterns,
// and leaves them in the folder for Python.
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "distrun/process_group.h"
#include "parallel/ddp/test/join_training.h"
#include "parallel/test/parity_worker.h"

namespace distrun {
namespace {

using testing::join_pattern;
using testing::JoinTraining;
using testing::save;

void train_pattern(const std::string& seed, const testing::ParityRun& run) {
  const auto pattern = join_pattern(std::stoull(seed), get_world_size());
  JoinTraining training(pattern);
  if (get_rank() == 0) {
    save(run.folder / (seed + ".start.pt"), training.start());
    save(run.folder / (seed + ".data.pt"), training.data());
    std::ofstream(run.folder / (seed + ".json")) << to_json(pattern);
  }
  training.run();
  const std::string to = run.name + "." + seed + "." + std::to_string(get_rank());
  save(run.folder / (to + ".pt"), training.state());
  std::ofstream(run.folder / (to + ".json"))
      << nlohmann::json{{"losses", training.losses()}, {"counts", training.counts()}};
}

}  // namespace

void testing::run_join_parity(const ParityRun& run) {
  for (const std::string& seed : run.seeds) train_pattern(seed, run);
}

}  // namespace distrun
