// file:// URLs, as torch.distributed's init_process_group() takes them for a store in a file.
//
//     file_url("/scratch/run 7/store").value();                   // "file:///scratch/run 7/store"
//     path_of_file_url("file:///scratch/run 7/store").value();    // and back
//
// Python does not decode the path (torch/distributed/rendezvous.py): "%20" is three characters, not
// a blank. So nothing is encoded, and characters that Python treats differently are refused: `?`
// and `#` end the path there, and tabs and line breaks are dropped. Pure.
#pragma once

#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

// Fails with kInvalidArgument if `path` is not absolute or has one of those characters.
Result<std::string> file_url(std::string_view path);

// Fails with kInvalidArgument if `url` is not "file://" and such a path.
Result<std::string> path_of_file_url(std::string_view url);

}  // namespace distrun
