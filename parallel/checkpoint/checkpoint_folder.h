// The folder of a checkpoint: written under another name, then put in place in one step.
//
//     const std::string unfinished = begin_checkpoint("run/last");  // "run/last.tmp-1"
//     …                                                             // All ranks write files.
//     commit_checkpoint(unfinished, "run/last", files);             // On one rank.
//
// Throws: c10::Error, whose text names the path and the problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/checkpoint/checkpoint_file.h"

namespace distrun::internal {

// Creates the folder for the files, and those above it. Removes what an earlier, interrupted save
// has left. Throws if `path` exists and does not look like a checkpoint.
std::string begin_checkpoint(const std::string& path);

// Checks that all files are visible here, writes the index, and replaces `path`.
void commit_checkpoint(const std::string& unfinished, const std::string& path,
                       const std::vector<FileRecord>& files);

// After an error. Throws nothing.
void discard_checkpoint(const std::string& unfinished) noexcept;

// Opens the files of a checkpoint, or of a folder or a file that another program has written.
std::vector<std::unique_ptr<CheckpointFile>> open_checkpoint(const std::string& path);

}  // namespace distrun::internal
