#include "backends/collective_checks.h"

#include <numeric>
#include <string>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group_state.h"

namespace distrun::internal {

namespace {

// A complex number is sent as its two parts, and may meet them.
at::ScalarType type_sent(const at::Tensor& tensor) {
  return c10::toRealValueType(tensor.scalar_type());
}
std::int64_t numel_sent(const at::Tensor& tensor) {
  return tensor.numel() * (tensor.is_complex() ? 2 : 1);
}

}  // namespace

void check_tensor(const CallSite& site, const char* name, const at::Tensor& tensor, Layout layout) {
  site.check(tensor.defined(), name, " is no tensor: it is not defined");
  const bool is_dense = tensor.layout() == at::kStrided;
  const bool is_fine =
      is_dense || (layout == Layout::kDenseOrSparse && tensor.layout() == at::kSparse);
  site.check(is_fine, name, " is ", tensor.layout(), "; expected a dense tensor");
  site.check(site.group->hasBackendForDeviceType(tensor.device().type()), name, " is on ",
             tensor.device(), ", and ", describe(site.group), " has no backend for that: it has ",
             get_backend(site.group));
}

void check_list(const CallSite& site, const char* name, const std::vector<at::Tensor>& tensors,
                int count) {
  site.check(tensors.size() == static_cast<std::size_t>(count), name, " has ", tensors.size(),
             tensors.size() == 1 ? " tensor" : " tensors", "; expected ", count,
             ", one for each rank of ", describe(site.group));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_tensor(site, c10::str(name, "[", i, "]").c_str(), tensors[i]);
  }
}

void check_like(const CallSite& site, const char* name, const at::Tensor& tensor,
                const char* other_name, const at::Tensor& other) {
  site.check(type_sent(tensor) == type_sent(other), name, " is of ", tensor.scalar_type(),
             "; expected ", other.scalar_type(), ", as ", other_name, " is");
  site.check(tensor.device() == other.device(), name, " is on ", tensor.device(), "; expected ",
             other.device(), ", as ", other_name, " is");
}

void check_numel(const CallSite& site, const char* name, const at::Tensor& tensor,
                 const char* other_name, const at::Tensor& other, std::int64_t times) {
  const std::string factor = times == 1 ? "" : c10::str(" times ", times, " ranks");
  site.check(numel_sent(tensor) == numel_sent(other) * times, name, " has ", tensor.numel(),
             " elements (", tensor.sizes(), "); expected as many as ", other_name, " (",
             other.sizes(), ")", factor);
}

void check_operation(const CallSite& site, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (!tensor.is_complex()) return;
  const char* name = nullptr;
  switch (op.op_) {
    case c10d::ReduceOp::MIN:
      name = "MIN";
      break;
    case c10d::ReduceOp::MAX:
      name = "MAX";
      break;
    case c10d::ReduceOp::PRODUCT:
      name = "PRODUCT";
      break;
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
      name = "a bitwise operation";
      break;
    default:
      break;
  }
  site.check(name == nullptr, "the tensor is of ", tensor.scalar_type(),
             ", and complex numbers have no ", name == nullptr ? "" : name,
             "; expected SUM or AVG");
}

void check_splits(const CallSite& site, const char* name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& sizes) {
  const int ranks = site.size();
  const std::int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  site.check(tensor.dim() > 0, name, " is a scalar; expected something to divide");
  if (sizes.empty()) {
    site.check(rows % ranks == 0, "the first dimension of ", name, " is ", rows,
               "; expected a multiple of ", ranks, ", the ranks of ", describe(site.group),
               ", or sizes to divide it by");
    return;
  }
  site.check(sizes.size() == static_cast<std::size_t>(ranks), name, " has ", sizes.size(),
             " split sizes; expected ", ranks, ", one for each rank of ", describe(site.group));
  const auto sum = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  site.check(sum == rows, "the split sizes of ", name, " add up to ", sum, "; expected ", rows,
             ", its first dimension");
}

}  // namespace distrun::internal
