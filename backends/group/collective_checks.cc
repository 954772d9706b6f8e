#include "backends/group/collective_checks.h"

#include <algorithm>
#include <string>

#include <c10/core/Device.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "backends/group/group_state.h"
#include "backends/group/registered_backends.h"
#include "common/text/rank_list.h"

namespace distrun::internal {

namespace {

bool are_sizes_sent_equal(const at::Tensor& one, const at::Tensor& other) {
  if (one.is_complex() == other.is_complex()) return one.sizes() == other.sizes();
  const at::Tensor& complex = one.is_complex() ? one : other;
  const at::Tensor& real = one.is_complex() ? other : one;
  auto sizes = complex.sizes().vec();
  sizes.push_back(2);
  return real.sizes() == at::IntArrayRef(sizes);
}

struct BackendsOf {
  const Group& group;
  friend std::ostream& operator<<(std::ostream& out, const BackendsOf& what) {
    return out << get_backend(what.group);
  }
};

bool has_backend_for(const c10d::ProcessGroup& group, c10::DeviceType type) {
  const auto devices = group.getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const c10::Device& one) { return one.type() == type; });
}

// Rejects operations that no backend supports for complex numbers.
void check_complex(const CallSite& site, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const bool is_fine =
      op == c10d::ReduceOp::SUM || op == c10d::ReduceOp::AVG || op == c10d::ReduceOp::PREMUL_SUM;
  site.check(!tensor.is_complex() || is_fine, "the tensor is of ", tensor.scalar_type(),
             ", and complex numbers have no ", name_of(op), "; expected SUM or AVG");
}

}  // namespace

const char* name_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return "SUM";
    case c10d::ReduceOp::AVG:
      return "AVG";
    case c10d::ReduceOp::PRODUCT:
      return "PRODUCT";
    case c10d::ReduceOp::MIN:
      return "MIN";
    case c10d::ReduceOp::MAX:
      return "MAX";
    case c10d::ReduceOp::BAND:
      return "BAND";
    case c10d::ReduceOp::BOR:
      return "BOR";
    case c10d::ReduceOp::BXOR:
      return "BXOR";
    case c10d::ReduceOp::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "UNUSED";
  }
}

bool has_cpu_backend(const c10d::ProcessGroup& group) {
  const auto devices = group.getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [](const c10::Device& one) { return one.is_cpu(); });
}

std::int64_t numel_sent(const at::Tensor& tensor) {
  return tensor.numel() * (tensor.is_complex() ? 2 : 1);
}

at::ScalarType type_sent(const at::Tensor& tensor) {
  return c10::toRealValueType(tensor.scalar_type());
}

const BackendTraits& traits_for(const CallSite& site, const at::Tensor& tensor) {
  return traits_of(*site.group->getBackend(tensor.device().type()));
}

std::ostream& operator<<(std::ostream& out, const Described& what) {
  return out << describe(what.group);
}

int group_rank_of(const char* function, const Group& group, const AnyRank& rank) {
  const auto& ranks = state_of(group).ranks;
  if (rank.is_of_group()) {
    const int size = static_cast<int>(ranks.size());
    TORCH_CHECK_VALUE(0 <= rank.value() && rank.value() < size, function, " on rank ",
                      state_of({}).process_group->getRank(), ": group rank ", rank.value(),
                      " is not in ", describe(group), "; expected 0 to ", size - 1);
    return rank.value();
  }
  const auto found = std::find(ranks.begin(), ranks.end(), rank.value());
  TORCH_CHECK_VALUE(found != ranks.end(), function, " on rank ",
                    state_of({}).process_group->getRank(), ": rank ", rank.value(), " is not in ",
                    describe(group), " (", list_of_ranks(ranks), ")");
  return static_cast<int>(found - ranks.begin());
}

int peer_of(const CallSite& site, const AnyRank& rank) {
  const int peer = group_rank_of(site.function, site.group, rank);
  site.check(peer != site.rank(), "the peer is this rank itself; expected another one");
  return peer;
}

void check_has_peer(const CallSite& site) {
  site.check(site.size() > 1, Described{site.group}, " has no other rank to receive from");
}

void check_tag(const CallSite& site, int tag) {
  site.check(tag >= 0, "the tag is ", tag, "; expected 0 or more");
}

void check_movable(const CallSite& site, const Name& name, const at::Tensor& tensor,
                   Layout layout) {
  site.check(tensor.defined(), name, " is an undefined tensor");
  const bool is_dense = tensor.layout() == at::kStrided;
  const bool is_fine =
      is_dense || (layout == Layout::kDenseOrSparse && tensor.layout() == at::kSparse);
  site.check(
      is_fine, name, " is ", tensor.layout(), "; expected a dense tensor (to_dense())",
      layout == Layout::kDenseOrSparse ? " or a sparse one in COO format (to_sparse())" : "");
  site.check(has_backend_for(*site.group.process_group(), tensor.device().type()), name, " is on ",
             tensor.device(), ", and ", Described{site.group}, " has no backend for that: it has ",
             BackendsOf{site.group});
}

void check_tensor(const CallSite& site, const Name& name, const at::Tensor& tensor, Layout layout) {
  check_movable(site, name, tensor, layout);
  traits_for(site, tensor).check_dtype(site, name, tensor);
}

void check_list(const CallSite& site, const Name& name, const std::vector<at::Tensor>& tensors,
                int count) {
  site.check(tensors.size() == static_cast<std::size_t>(count), name, " has ", tensors.size(),
             tensors.size() == 1 ? " tensor" : " tensors", "; expected ", count,
             ", one for each rank of ", Described{site.group});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_movable(site, name[i], tensors[i]);
  }
}

void check_like(const CallSite& site, const Name& name, const at::Tensor& tensor,
                const Name& other_name, const at::Tensor& other) {
  site.check(type_sent(tensor) == type_sent(other), name, " has dtype ", tensor.scalar_type(),
             "; expected ", other.scalar_type(), ", the dtype of ", other_name);
  site.check(tensor.device() == other.device(), name, " is on ", tensor.device(), "; expected ",
             other.device(), ", the device of ", other_name);
}

void check_numel(const CallSite& site, const Name& name, const at::Tensor& tensor,
                 const Name& other_name, const at::Tensor& other, std::int64_t times) {
  if (numel_sent(tensor) == numel_sent(other) * times) return;
  const std::string factor = times == 1 ? "" : c10::str(" times ", times, " ranks");
  site.check(false, name, " has ", tensor.numel(), " elements (", tensor.sizes(),
             "); expected as many as ", other_name, " (", other.sizes(), ")", factor);
}

void check_sizes(const CallSite& site, const Name& name, const at::Tensor& tensor,
                 const Name& other_name, const at::Tensor& other) {
  site.check(are_sizes_sent_equal(tensor, other), name, " has sizes ", tensor.sizes(),
             "; expected ", other.sizes(), ", the sizes of ", other_name);
}

void check_operation(const CallSite& site, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  check_complex(site, tensor, op);
  traits_for(site, tensor).check_operation(site, tensor, op);
}

void check_device(const CallSite& site, const Name& name, const at::Tensor& tensor) {
  traits_for(site, tensor).check_device(site, name, tensor);
}

void check_splits(const CallSite& site, const Name& name, const at::Tensor& tensor,
                  const std::vector<std::int64_t>& sizes) {
  const int ranks = site.size();
  const std::int64_t rows = tensor.dim() == 0 ? 0 : tensor.size(0);
  site.check(tensor.dim() > 0, name, " is a scalar; expected a tensor with at least one dimension");
  if (sizes.empty()) {
    site.check(rows % ranks == 0, "the first dimension of ", name, " is ", rows,
               "; expected a multiple of ", ranks, ", the ranks of ", Described{site.group},
               ", or explicit split sizes");
    return;
  }
  site.check(sizes.size() == static_cast<std::size_t>(ranks), name, " has ", sizes.size(),
             " split sizes; expected ", ranks, ", one for each rank of ", Described{site.group});
  std::int64_t sum = 0;
  bool is_number = true;
  for (const std::int64_t size : sizes) {
    site.check(size >= 0, "the split sizes of ", name, " have ", size, "; expected 0 or more");
    is_number = is_number && !__builtin_add_overflow(sum, size, &sum);
  }
  site.check(is_number && sum == rows, "the split sizes of ", name, " add up to ",
             is_number ? std::to_string(sum) : "2^63 or more", "; expected ", rows,
             ", its first dimension");
}

void check_own_part(const CallSite& site, const at::Tensor& output,
                    const std::vector<std::int64_t>& output_sizes, const at::Tensor& input,
                    const std::vector<std::int64_t>& input_sizes) {
  const auto own = static_cast<std::size_t>(site.rank());
  const auto numel = [&](const at::Tensor& tensor, const std::vector<std::int64_t>& sizes) {
    if (sizes.empty()) return numel_sent(tensor) / site.size();
    return tensor.size(0) == 0 ? 0 : numel_sent(tensor) / tensor.size(0) * sizes[own];
  };
  const auto to = numel(output, output_sizes), from = numel(input, input_sizes);
  site.check(to == from, "the part for this rank itself has ", to, " elements in output (",
             output.sizes(), ") and ", from, " in input (", input.sizes(), ")",
             output.is_complex() || input.is_complex() ? "; a complex element counts as two" : "");
}

}  // namespace distrun::internal
