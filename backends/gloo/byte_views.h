// ByteViews lets Gloo move tensors of any dtype: Gloo gets views of their bytes.
//
//     ByteViews views;
//     Tensors moved = views.of(tensors);
//     return views.finish(ProcessGroupGloo::broadcast(moved, options));
#pragma once

#include <vector>

#include "backends/group/contiguous.h"

namespace distrun::internal {

// Whether Gloo supports the dtype.
bool gloo_has(at::ScalarType type);

class ByteViews {
 public:
  // The tensor itself if Gloo supports its dtype; else a view of its bytes with one more dimension.
  at::Tensor of(const at::Tensor& tensor);
  std::vector<at::Tensor> of(const std::vector<at::Tensor>& tensors);
  std::vector<std::vector<at::Tensor>> of(const std::vector<std::vector<at::Tensor>>& lists);

  // Returns the work, with the original tensors as its results.
  c10::intrusive_ptr<c10d::Work> finish(const c10::intrusive_ptr<c10d::Work>& work);

 private:
  std::vector<CopyBack> views_;
};

}  // namespace distrun::internal
