// Which files of a checkpoint have the parts that a rank loads.
//
//     const Sources sources = sources_in(files);
//     const auto parts = parts_to_load(state, sources);
//     check_sources(path, parts, sources);
//     read_parts(parts, sources);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "distrun/checkpoint.h"
#include "parallel/checkpoint/checkpoint_file.h"

namespace distrun::internal {

// An entry of a file, both of which must exist.
struct Source {
  CheckpointFile* file;
  const SafetensorsEntry* entry;
};
using Sources = std::map<std::string, std::vector<Source>>;  // By the name of the tensor.

Sources sources_in(const std::vector<std::unique_ptr<CheckpointFile>>& files);

// The parts of the state, without those that the files have by another name only: the same memory
// can have several names.
std::vector<CheckpointPart> parts_to_load(const CheckpointState& state, const Sources& sources);

// Throws c10::ValueError, whose text names the path, if the files lack something of the parts.
void check_sources(const std::string& path, const std::vector<CheckpointPart>& parts,
                   const Sources& sources);

// Requires that check_sources() has found no problem.
void read_parts(const std::vector<CheckpointPart>& parts, const Sources& sources);

}  // namespace distrun::internal
