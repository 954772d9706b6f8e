#include "backends/gloo.h"

#include <csignal>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace distrun {

namespace {

// Gloo writes to sockets whose other end may be gone.  In Python that is an error of the write, for
// Python ignores SIGPIPE; a C++ program would be killed by it instead of being told.
void let_writes_fail() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    ::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout) {
  let_writes_fail();
  const auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, rank, world_size, c10d::ProcessGroupGloo::Options::create_default(timeout));
  backend->setSequenceNumberForGroup();
  return backend;
}

}  // namespace distrun
