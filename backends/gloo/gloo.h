// The Gloo backend, as LibTorch carries it.
//
// Apart from the rest because its header needs Gloo's declarations, which LibTorch
// leaves out.  Nothing of Gloo is derived from or made here: what the declarations
// say of gloo::rendezvous::Store differs from what is inside LibTorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distrun/backend_registry.h"
#include "distrun/group.h"

namespace distrun {

// Also lets the process ignore SIGPIPE, where nobody handles it, as Python does: a peer
// that is gone is then an error and does not kill this rank.
//
// Connects to the other ranks by way of the request's store; returns when every rank has come.
// GLOO_SOCKET_IFNAME names the network interfaces to use, separated by commas.  Without it Gloo
// listens at the address that routes to the host of the TCP store, unless that is loopback.
// Options, if there are any, are c10d::ProcessGroupGloo::Options; their timeout is the request's.
// They are copied.
// Throws where the others do not come in time.
//
// Its abort() ends what is under way with an error, and what is begun after it; LibTorch's own does
// nothing.  Any thread may call it.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request);

// Throws c10::TypeError where these are options of another backend.
void check_gloo_options(const BackendOptions& options);

// The backend with a check before each call that all ranks make the same one: CheckedBackend, or,
// in a group that has ranks in Python, what those have (c10d::ProcessGroupWrapper), which compares
// less.  The check has a Gloo backend of its own.
c10::intrusive_ptr<c10d::Backend> make_backend_with_checks(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request);

// What Gloo throws has no type of its own in LibTorch, and names its source file; or says that
// abort() has closed the connections.
bool is_gloo_error(std::string_view text);

// The error says that this rank has waited too long.
bool is_gloo_timeout(std::string_view text);

// The rank, within the group, of the peer whose lost connection is what `error` tells of, if it
// does. Gloo names an address there, from which nobody knows the rank.  The error is one that
// `backend` has just thrown.
std::optional<int> peer_of_gloo_error(c10d::Backend& backend, const std::string& error);

}  // namespace distrun
