// Which folders a save may replace or remove.
//
// Throws: c10::Error, whose text names the path and the problem, and std::filesystem's errors.
#pragma once

#include <string>

namespace distrun::internal {

bool has_index(const std::string& folder);
std::string index_in(const std::string& folder);

// Throws if the folder has anything that a checkpoint of distrun does not have, or if no folder can
// take its place because it is a mount point.
void check_replaceable(const std::string& path);

// Throws if the folder has anything that an interrupted save does not leave: files of a checkpoint,
// with or without an index.
void check_leftover(const std::string& path);

}  // namespace distrun::internal
