// StoreChoice says where the workers of a run rendezvous.
//
//     auto store = parse_store_choice("file:meet", "/scratch");   // kFile, "/scratch/meet"
//
// `tcp`: the TCP store that distrun hosts. `file:PATH`: a file, with c10d's FileStore; distrun
// creates and removes it (store_file.h) and opens no port. Pure.
#pragma once

#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

struct StoreChoice {
  enum class Kind { kTcp, kFile };
  Kind kind = Kind::kTcp;
  std::string path;  // For kFile: absolute, and valid in a file:// URL.
};

// Relative paths start in `folder`. Fails with kInvalidArgument, which says what is wrong.
Result<StoreChoice> parse_store_choice(std::string_view text, const std::string& folder);

}  // namespace distrun
