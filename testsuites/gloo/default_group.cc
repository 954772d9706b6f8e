#include "testsuites/gloo/default_group.h"

#include <cstdlib>

#include "backends/collectives.h"
#include "backends/process_group.h"

namespace distrun {

void DefaultGroupTest::SetUp() {
  ::setenv("GLOO_SOCKET_IFNAME", "lo", 1);
  init_process_group(backend(), {.timeout = std::chrono::seconds(30)});
}

void DefaultGroupTest::TearDown() {
  if (HasFailure() || !is_initialized()) return;
  meet("the end");  // Who is still in a collective is not to lose its peers.
  destroy_process_group();
}

}  // namespace distrun
