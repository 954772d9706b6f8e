// file:// URLs, as init_process_group() of torch.distributed takes them for a store that is a file.
//
//     file_url("/scratch/run 7/store").value();                   // "file:///scratch/run 7/store"
//     path_of_file_url("file:///scratch/run 7/store").value();    // and back
//
// Python takes the path as it stands (torch/distributed/rendezvous.py): "%20" is three characters
// of a name, not a blank.  So nothing is encoded here, and a path that Python would read
// otherwise is refused: `?` and `#` end a path there, and tabs and line breaks are dropped.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "distrun/result.h"

namespace distrun {

// Fails with kInvalidArgument where `path` is not absolute or has one of those characters.
Result<std::string> file_url(std::string_view path);

// Fails with kInvalidArgument for anything but "file://" and such a path.
Result<std::string> path_of_file_url(std::string_view url);

}  // namespace distrun
