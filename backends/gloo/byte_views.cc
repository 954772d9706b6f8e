#include "backends/gloo/byte_views.h"

#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>

namespace distrun::internal {

bool gloo_has(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
    case at::kFloat:
    case at::kHalf:
    case at::kBFloat16:
    case at::kByte:
    case at::kChar:
    case at::kInt:
    case at::kLong:
    case at::kBool:
      return true;
    default:
      return false;
  }
}

at::Tensor ByteViews::of(const at::Tensor& tensor) {
  if (gloo_has(tensor.scalar_type())) return tensor;
  const at::AutoDispatchBelowADInplaceOrView past_autograd;
  at::Tensor view = tensor.unsqueeze(-1).view(at::kByte);
  views_.push_back({.to = tensor, .sent = view, .from = {}});
  return view;
}

std::vector<at::Tensor> ByteViews::of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> all;
  all.reserve(tensors.size());
  for (const at::Tensor& one : tensors) all.push_back(of(one));
  return all;
}

std::vector<std::vector<at::Tensor>> ByteViews::of(
    const std::vector<std::vector<at::Tensor>>& lists) {
  std::vector<std::vector<at::Tensor>> all;
  all.reserve(lists.size());
  for (const auto& one : lists) all.push_back(of(one));
  return all;
}

c10::intrusive_ptr<c10d::Work> ByteViews::finish(const c10::intrusive_ptr<c10d::Work>& work) {
  return views_.empty() ? work : copy_back_after(work, std::move(views_));
}

}  // namespace distrun::internal
