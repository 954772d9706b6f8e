// The rendezvous of init_process_group().
#pragma once

#include <chrono>

#include "backends/group/rendezvous.h"
#include "common/os/environment.h"
#include "distrun/process_group.h"

namespace distrun::internal {

struct InitRendezvous {
  Rendezvous found;
  // True if no backend needs a rendezvous: each rank is alone.
  bool is_dry_run;
};

// That of the options, or PyTorch's default for their backend.
std::chrono::milliseconds timeout_of(const InitOptions& options);

// Uses the store of the options. Without one, a dry run without an init_method gets its own store
// at once; every other run calls rendezvous(). Throws c10::ValueError for contradictory options,
// and the errors of rendezvous().
InitRendezvous init_rendezvous(const InitOptions& options, const Environment& environment);

}  // namespace distrun::internal
