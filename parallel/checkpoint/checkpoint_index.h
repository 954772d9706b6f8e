// The index of a checkpoint: which files belong to it. Written last, so a folder with an index has
// all of its files.
//
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distrun/result.h"
#include "parallel/checkpoint/checkpoint_file.h"

namespace distrun::internal {

inline constexpr const char* kIndexName = "checkpoint.json";

// {"format": "distrun checkpoint", "version": 1, "block_bytes": 1048576, "files": [
//   {"name": "shard-….safetensors", "bytes": 4096, "xxh3_64": ["0123456789abcdef"]}]}
std::string index_text(const std::vector<FileRecord>& files);

// Fails with kInvalidArgument if the text is malformed, and with kProtocol if a newer distrun has
// written it.
Result<std::vector<FileRecord>> parse_index(std::string_view text);
inline bool is_newer(const Error& error) { return error.kind == ErrorKind::kProtocol; }

}  // namespace distrun::internal
