// Who this process is in the world that init_process_group() makes, and in which store the ranks of
// that meet.  For process_group.cc.
#pragma once

#include "common/os/environment.h"
#include "distrun/process_group.h"
#include "distrun/rendezvous.h"

namespace distrun::internal {

struct Meeting {
  Rendezvous at;
  // All backends are "fake", whatever the store: the others do not know of this world.
  bool is_dry_run;
};

// With a store in the options: as they say.  For "fake" alone, without an init_method in the
// options: in a FakeStore, at once.  Else: rendezvous(). Throws c10::ValueError where the options
// make no sense together, and what rendezvous() throws.
Meeting meet(const InitOptions& options, const Environment& environment);

}  // namespace distrun::internal
