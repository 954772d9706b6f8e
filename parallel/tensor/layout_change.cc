#include "parallel/tensor/layout_change.h"

#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/custom_class.h>

#include "distrun/collectives.h"

namespace distrun::internal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<at::Tensor> parts_of(const at::Tensor& tensor, std::int64_t dim, const Group& group) {
  const std::int64_t ranks = group->getSize();
  TORCH_CHECK_VALUE(-tensor.dim() <= dim && dim < tensor.dim(), "a tensor with sizes ",
                    tensor.sizes(), " has no dimension ", dim, " to divide among ranks");
  TORCH_CHECK_VALUE(tensor.size(dim) % ranks == 0, "a tensor with sizes ", tensor.sizes(),
                    " cannot be divided among ", ranks, " ranks along dimension ", dim);
  return tensor.chunk(ranks, dim);
}

struct Change : torch::CustomClassHolder {
  Change(const LayoutOp& its_backward, Group its_group)
      : backward(its_backward), group(std::move(its_group)) {}
  LayoutOp backward;
  Group group;
};

struct ChangeLayout : torch::autograd::Function<ChangeLayout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& tensor, const LayoutOp& op,
                            const c10::intrusive_ptr<Change>& change) {
    context->saved_data["change"] = c10::IValue::make_capsule(change);
    const at::Tensor result = apply_layout_op(tensor, op, change->group);
    return result.is_same(tensor) ? tensor.view_as(tensor) : result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto change =
        c10::static_intrusive_pointer_cast<Change>(context->saved_data["change"].toCapsule());
    return {apply_layout_op(gradients[0], change->backward, change->group), at::Tensor(),
            at::Tensor()};
  }
};

}  // namespace

at::Tensor apply_layout_op(const at::Tensor& tensor, const LayoutOp& op, const Group& group) {
  const at::NoGradGuard no_grad;
  switch (op.kind) {
    case LayoutOp::kIdentity:
      return tensor;
    case LayoutOp::kAllReduce: {
      at::Tensor sum = tensor.detach().clone(at::MemoryFormat::Contiguous);
      all_reduce(sum, ReduceOp::SUM, {.group = group});
      return sum;
    }
    case LayoutOp::kAllGather: {
      const at::Tensor own = tensor.detach().contiguous();
      std::vector<at::Tensor> parts(static_cast<std::size_t>(group->getSize()));
      for (at::Tensor& part : parts) part = at::empty_like(own);
      all_gather(parts, own, {.group = group});
      return at::cat(parts, op.dim);
    }
    case LayoutOp::kReduceScatter: {
      std::vector<at::Tensor> parts = parts_of(tensor.detach(), op.dim, group);
      for (at::Tensor& part : parts) part = part.contiguous();
      at::Tensor own = at::empty_like(parts.front());
      reduce_scatter(own, parts, ReduceOp::SUM, {.group = group});
      return own;
    }
    case LayoutOp::kSlice:
      break;
  }
  return parts_of(tensor.detach(), op.dim, group)[static_cast<std::size_t>(group->getRank())]
      .contiguous();
}

at::Tensor change_layout(const at::Tensor& tensor, const LayoutOp& forward,
                         const LayoutOp& backward, const Group& group) {
  return ChangeLayout::apply(tensor, forward, c10::make_intrusive<Change>(backward, group));
}

at::Tensor redistribute(const at::Tensor& tensor, const tensor::Placement& from,
                        const tensor::Placement& to, const Group& group) {
  if (from == to) return tensor;
  at::Tensor whole = tensor;
  if (const auto* shard = std::get_if<tensor::Shard>(&from)) {
    whole = change_layout(whole, {LayoutOp::kAllGather, shard->dim}, {LayoutOp::kSlice, shard->dim},
                          group);
  }
  const auto* shard = std::get_if<tensor::Shard>(&to);
  if (shard == nullptr) return whole;
  return change_layout(whole, {LayoutOp::kSlice, shard->dim}, {LayoutOp::kAllGather, shard->dim},
                       group);
}

at::Tensor replicate_for_parts(const at::Tensor& tensor, const tensor::Placement& from,
                               const Group& group) {
  if (const auto* shard = std::get_if<tensor::Shard>(&from)) {
    return change_layout(tensor, {LayoutOp::kAllGather, shard->dim},
                         {LayoutOp::kReduceScatter, shard->dim}, group);
  }
  return change_layout(tensor, {LayoutOp::kIdentity}, {LayoutOp::kAllReduce}, group);
}

at::Tensor sum_to(const at::Tensor& partial, const tensor::Placement& to, const Group& group) {
  if (const auto* shard = std::get_if<tensor::Shard>(&to)) {
    return change_layout(partial, {LayoutOp::kReduceScatter, shard->dim},
                         {LayoutOp::kAllGather, shard->dim}, group);
  }
  return change_layout(partial, {LayoutOp::kAllReduce}, {LayoutOp::kIdentity}, group);
}

}  // namespace distrun::internal
