// The rendezvous of init_process_group(): who this process is in the world, and the store in which
// its ranks meet.  For process_group.cc.
#pragma once

#include "backends/group/rendezvous.h"
#include "common/os/environment.h"
#include "distrun/process_group.h"

namespace distrun::internal {

struct InitRendezvous {
  Rendezvous found;
  // No backend of the world needs a rendezvous, whatever the store: other ranks do not know of it.
  bool is_dry_run;
};

// With a store in the options: that one.  In a dry run without an init_method in the options: a
// store without other ranks, at once.  Else rendezvous().  Throws c10::ValueError if the options
// contradict each other, and what rendezvous() throws.
InitRendezvous init_rendezvous(const InitOptions& options, const Environment& environment);

}  // namespace distrun::internal
