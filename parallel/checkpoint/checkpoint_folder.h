// The folder of a checkpoint: written under another name, then put in place in one step.
//
//     FolderLock lock = begin_checkpoint("run/last");              // On one rank.
//     const std::string unfinished = unfinished_name("run/last");  // "run/last.unfinished"
//     …                                                            // All ranks write files.
//     commit_checkpoint(unfinished, "run/last", files);            // On one rank.
//
// Throws: c10::Error, whose text names the path and the problem.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/checkpoint/checkpoint_file.h"
#include "parallel/checkpoint/folder_lock.h"

namespace distrun::internal {

// Creates the folder for the files, and those above it. Removes what an earlier, interrupted save
// has left. Throws if another save to `path` is in progress, or if `path` exists and has anything
// but a checkpoint. Keep the lock until the save ends.
FolderLock begin_checkpoint(const std::string& path);
std::string unfinished_name(const std::string& path);

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
