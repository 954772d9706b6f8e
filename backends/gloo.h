// The Gloo backend, as LibTorch carries it.
//
// Apart from the rest because its header needs Gloo's declarations, which LibTorch
// leaves out.  Nothing of Gloo is derived from or made here: what the declarations
// say of gloo::rendezvous::Store differs from what is inside LibTorch.
#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace distrun {

// Also lets the process ignore SIGPIPE, where nobody handles it, as Python does: a peer
// that is gone is then an error and does not kill this rank.
//
// Connects to the other ranks by way of `store`; returns when every rank has come.
// GLOO_SOCKET_IFNAME names the network interfaces to use, separated by commas.
// Throws where the others do not come within `timeout`.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout);

}  // namespace distrun
