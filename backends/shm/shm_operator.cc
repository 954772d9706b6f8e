// The backend shm for Python (packaging/python/distrun/shm), as operators: one gives it to a group,
// the other moves a tensor into memory that the ranks of a group reduce in place.
//
//     torch.ops.distrun_shm.set_backend(group.boxed(), ranks, timeout_ms, name)
//     torch.ops.distrun_shm.share(tensor, group.boxed())
//
// A library of operators needs no headers of Python, and works with each version of Python.
// libdistrun does not contain this file.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include "backends/group/shared_tensors.h"
#include "backends/shm/shm.h"

namespace distrun::shm {

namespace {

// `group` has the store and the size. `ranks` are the global ranks of the group.
void set_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                 const std::vector<std::int64_t>& ranks, std::int64_t timeout_ms,
                 const std::string& name) {
  BackendRequest request{.store = group->getStore(),
                         .rank = group->getRank(),
                         .size = group->getSize(),
                         .timeout = std::chrono::milliseconds(timeout_ms),
                         .group_name = name};
  request.ranks.assign(ranks.begin(), ranks.end());
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                    internal::make_one_host_backend(request));
}

// No call may use the tensor meanwhile.
void share(const at::Tensor& tensor, const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  internal::share_with_group(tensor, *group);
}

}  // namespace

TORCH_LIBRARY(distrun_shm, library) {
  library.def("set_backend", set_backend);
  library.def("share", share);
}

}  // namespace distrun::shm
