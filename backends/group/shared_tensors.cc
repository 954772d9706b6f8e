#include "backends/group/shared_tensors.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace distrun::internal {

void share_with_group(const at::Tensor& tensor, c10d::ProcessGroup& group) {
  const bool is_whole = tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided &&
                        tensor.storage_offset() == 0 && tensor.nbytes() != 0 &&
                        tensor.storage().nbytes() == tensor.nbytes();
  if (!is_whole) return;
  const auto backend = group.getBackend(tensor.device().type());
  auto* const shares = dynamic_cast<SharesTensors*>(backend.get());
  if (shares == nullptr) return;
  const auto done = shares->share(tensor);
  if (!done) {
    TORCH_WARN("a reduction will not be in place: ", done.error().message);
  }
}

}  // namespace distrun::internal
