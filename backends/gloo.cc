#include "backends/gloo.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace distrun {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout) {
  const auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, rank, world_size, c10d::ProcessGroupGloo::Options::create_default(timeout));
  backend->setSequenceNumberForGroup();
  return backend;
}

}  // namespace distrun
