// The address at which Gloo listens, if the user does not choose one.
#pragma once

#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace distrun::internal {

// The address of this machine towards the host of a TCP store. Empty, so that Gloo chooses, if
// GLOO_SOCKET_IFNAME is set, for other stores, and if that address is loopback.
//
// LibTorch's default is the address of this machine's name, which on Debian is a loopback address
// that other machines cannot reach.
std::optional<std::string> gloo_address(const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace distrun::internal
