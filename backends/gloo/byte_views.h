// Gloo moves and reduces nine dtypes.  To move a tensor of another one, it gets a view of its
// bytes.
//
//     ByteViews views;
//     Tensors moved = views.of(tensors);
//     return views.finish(ProcessGroupGloo::broadcast(moved, options));
#pragma once

#include <vector>

#include "backends/group/contiguous.h"

namespace distrun::internal {

// Gloo moves and reduces tensors of this dtype as they are.
bool gloo_has(at::ScalarType type);

class ByteViews {
 public:
  // The tensor itself if Gloo has its dtype; else a view with one more dimension, of bytes.
  at::Tensor of(const at::Tensor& tensor);
  std::vector<at::Tensor> of(const std::vector<at::Tensor>& tensors);
  std::vector<std::vector<at::Tensor>> of(const std::vector<std::vector<at::Tensor>>& lists);

  // The work, whose results are the tensors again.
  c10::intrusive_ptr<c10d::Work> finish(const c10::intrusive_ptr<c10d::Work>& work);

 private:
  std::vector<CopyBack> views_;
};

}  // namespace distrun::internal
