// What the ranks in C++ of the parity tests do: parity_worker is one program for all of them.
//
//     distrun launch --nproc-per-node 2 parity_worker ddp FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker functional FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker join FOLDER RUN SEED…
//
// Each rank writes its results to files in FOLDER, whose names begin with RUN.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace distrun::testing {

struct ParityRun {
  std::filesystem::path folder;
  std::string name;
  std::vector<std::string> seeds;
};

// Each requires a default group, and is called on all its ranks.
void run_ddp_parity(const ParityRun& run);
void run_functional_parity(const ParityRun& run);
void run_join_parity(const ParityRun& run);

}  // namespace distrun::testing
