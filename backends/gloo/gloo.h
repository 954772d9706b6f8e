// LibTorch's Gloo backend.
//
// Separate, because c10d's header needs Gloo's declarations, which LibTorch does not include.
// Nothing here derives from or creates Gloo's classes: the installed declarations of
// gloo::rendezvous::Store differ from those inside LibTorch.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "distrun/backend_registry.h"
#include "distrun/group.h"

namespace distrun {

// Makes the process ignore SIGPIPE if it has no handler, as Python does: a lost peer is then an
// error.
//
// Connects to all other ranks through the request's store before it returns. GLOO_SOCKET_IFNAME
// names the network interfaces to use, separated by commas. Without it, Gloo listens at the address
// that routes to the host of the TCP store, unless that is loopback. Copies the options, which must
// be c10d::ProcessGroupGloo::Options, and sets their timeout to the request's. Throws if a rank
// does not connect in time.
//
// abort(), which does nothing in LibTorch, ends running and later operations with an error. Any
// thread may call it.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const BackendRequest& request);

// Throws c10::TypeError for options of another backend.
void check_gloo_options(const BackendOptions& options);

// Wraps the backend to check before each call that all ranks make the same call. Returns a
// CheckedBackend or, in a group with Python ranks, a c10d::ProcessGroupWrapper, which compares
// less. Uses a second Gloo backend.
c10::intrusive_ptr<c10d::Backend> make_backend_with_checks(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request);

// Whether the text is from Gloo, whose errors have no type in LibTorch: it names a source file of
// Gloo, or says that abort() has closed the connections.
bool is_gloo_error(std::string_view text);

// Whether the text reports a timeout.
bool is_gloo_timeout(std::string_view text);

// The group rank of the peer whose lost connection `error` reports, if any; Gloo reports only its
// address. `backend` has just thrown `error`.
std::optional<int> peer_of_gloo_error(c10d::Backend& backend, const std::string& error);

}  // namespace distrun
