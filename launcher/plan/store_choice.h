// StoreChoice says where the workers of a run meet.
//
//     auto store = parse_store_choice("file:meet", "/scratch");   // kFile, "/scratch/meet"
//
// `tcp`: in the TCP store that distrun hosts.  `file:PATH`: in a file, with c10d's FileStore;
// distrun makes it and removes it (store_file.h), and no port is opened.  Pure.
#pragma once

#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

struct StoreChoice {
  enum class Kind { kTcp, kFile };
  Kind kind = Kind::kTcp;
  std::string path;  // kFile: of the file; absolute, and one that a file:// URL can carry.
};

// A path that is not absolute begins in `folder`.  Fails with kInvalidArgument, naming both forms
// or what is wrong with the path.
Result<StoreChoice> parse_store_choice(std::string_view text, const std::string& folder);

}  // namespace distrun
