#include "parallel/test/parity_worker.h"

#include <cstdio>
#include <functional>
#include <map>

#include <ATen/Parallel.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"

int main(int count, char** argv) {
  using distrun::testing::ParityRun;
  const std::map<std::string, std::function<void(const ParityRun&)>> kinds = {
      {"checkpoint", distrun::testing::run_checkpoint_parity},
      {"ddp", distrun::testing::run_ddp_parity},
      {"fsdp", distrun::testing::run_fsdp_parity},
      {"functional", distrun::testing::run_functional_parity},
      {"hooks", distrun::testing::run_hooks_parity},
      {"join", distrun::testing::run_join_parity},
      {"pipeline", distrun::testing::run_pipeline_parity},
      {"sync_batch_norm", distrun::testing::run_sync_batch_norm_parity},
      {"zero_redundancy", distrun::testing::run_zero_redundancy_parity}};
  const std::vector<std::string> arguments(argv + 1, argv + count);
  if (arguments.size() < 3 || !kinds.contains(arguments[0])) {
    std::string names;
    for (const auto& [name, run] : kinds) names += (names.empty() ? "" : "|") + name;
    std::fprintf(stderr, "usage: parity_worker %s FOLDER RUN [SEED…]\n", names.c_str());
    return 2;
  }
  at::set_num_threads(1);
  distrun::init_process_group("gloo");
  kinds.at(arguments[0])({arguments[1], arguments[2], {arguments.begin() + 3, arguments.end()}});
  distrun::barrier();
  distrun::destroy_process_group();
  return 0;
}
