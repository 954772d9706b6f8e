// The folder of a checkpoint: written under another name, then put in place in one step.
//
//     const int number = begin_checkpoint("run/last");                  // On one rank.
//     const std::string unfinished = unfinished_name("run/last", number);  // "run/last.tmp-1"
//     …                                                                 // All ranks write files.
//     commit_checkpoint(unfinished, "run/last", files);                 // On one rank.
//
// Throws: c10::Error, whose text names the path and the problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/checkpoint/checkpoint_file.h"

namespace distrun::internal {

// Creates the folder for the files, and those above it, and returns its number. Removes what an
// earlier, interrupted save has left. Throws if `path` exists and has anything but a checkpoint.
int begin_checkpoint(const std::string& path);
std::string unfinished_name(const std::string& path, int number);

// Checks that all files are visible here, writes the index, and replaces `path`.
void commit_checkpoint(const std::string& unfinished, const std::string& path,
                       const std::vector<FileRecord>& files);

// After an error. Throws nothing.
void discard_checkpoint(const std::string& unfinished) noexcept;

// Lists the files of a checkpoint, or of a folder or a file that another program has written. One
// rank makes the list, so that all ranks open the same files if the checkpoint is replaced
// meanwhile.
std::string find_checkpoint(const std::string& path);
std::vector<std::unique_ptr<CheckpointFile>> open_checkpoint(const std::string& list);

}  // namespace distrun::internal
