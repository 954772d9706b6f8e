// The C++ ranks of the parity tests, all in one program.
//
//     distrun launch --nproc-per-node 2 parity_worker checkpoint FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker ddp FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker fsdp FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker functional FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker hooks FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker join FOLDER RUN SEED…
//     distrun launch --nproc-per-node 2 parity_worker sync_batch_norm FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker zero_redundancy FOLDER RUN
//     distrun launch --nproc-per-node 2 parity_worker pipeline FOLDER RUN
//
// Each rank writes its results to files in FOLDER, whose names start with RUN.
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

// Each requires a default group.  Every rank must call it.
void run_checkpoint_parity(const ParityRun& run);
void run_ddp_parity(const ParityRun& run);
void run_fsdp_parity(const ParityRun& run);
void run_functional_parity(const ParityRun& run);
void run_hooks_parity(const ParityRun& run);
void run_join_parity(const ParityRun& run);
void run_sync_batch_norm_parity(const ParityRun& run);
void run_zero_redundancy_parity(const ParityRun& run);
void run_pipeline_parity(const ParityRun& run);

}  // namespace distrun::testing
