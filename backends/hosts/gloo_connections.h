// Closes the connections of a Gloo backend, and finds the one that was lost. Uses only c10d,
// because the library for Python is compiled without the headers of Gloo. C++ has
// make_gloo_backend().
//
// Requires a backend that has connected to all ranks: not one made with TORCH_GLOO_LAZY_INIT. Its
// last receives use the tags below INT_MAX, so the backend cannot be used after lost_peer().
//
// Thread safety: any thread. Calls on other threads may go on: they share only the number that c10d
// gives to a call, which may then be wrong in its records.
#pragma once

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun::hosts {

// Running and later calls end with an error.
void close_connections(c10d::Backend& gloo);

// The rank whose lost connection `error` reports, if any; Gloo reports only its address. `gloo` has
// just thrown `error`.
std::optional<int> lost_peer(c10d::Backend& gloo, const std::string& error);

}  // namespace distrun::hosts
