// The ranks in C++ of join_parity_test.py: what join_parity_ranks.py does, with our Join.
//
//     distrun launch --nproc-per-node 2 join_parity_ranks FOLDER RUN SEED…
//
// They draw the patterns, and leave them in the folder for those in Python.
#include <filesystem>
#include <fstream>
#include <string>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "parallel/test/join_training.h"

namespace distrun {
namespace {

using testing::join_pattern;
using testing::JoinTraining;
using testing::save;

void run_pattern(const std::filesystem::path& folder, const std::string& run,
                 const std::string& seed) {
  const auto pattern = join_pattern(std::stoull(seed), get_world_size());
  JoinTraining training(pattern);
  if (get_rank() == 0) {
    save(folder / (seed + ".start.pt"), training.start());
    save(folder / (seed + ".data.pt"), training.data());
    std::ofstream(folder / (seed + ".json")) << to_json(pattern);
  }
  training.run();
  const std::string to = run + "." + seed + "." + std::to_string(get_rank());
  save(folder / (to + ".pt"), training.state());
  std::ofstream(folder / (to + ".json"))
      << nlohmann::json{{"losses", training.losses()}, {"counts", training.counts()}};
}

}  // namespace
}  // namespace distrun

int main(int count, char** argv) {
  at::set_num_threads(1);
  distrun::init_process_group("gloo");
  for (int i = 3; i < count; ++i) distrun::run_pattern(argv[1], argv[2], argv[i]);
  distrun::barrier();
  distrun::destroy_process_group();
  return 0;
}
