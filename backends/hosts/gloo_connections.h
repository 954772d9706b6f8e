// The connections of a Gloo backend.
//
// Only by calls of c10d: the library for Python is compiled without the headers of Gloo.
//
// Thread safety: any thread, also while others use the backend.
#pragma once

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun::hosts {

// Closes the connections to all ranks, which ends running and later calls with an error. Returns at
// once if they are closed already.
void close_connections(c10d::Backend& gloo);

// The rank whose lost connection `error` reports, if any; Gloo reports only its address. `gloo` has
// just thrown `error`.
std::optional<int> lost_peer(c10d::Backend& gloo, const std::string& error);

}  // namespace distrun::hosts
