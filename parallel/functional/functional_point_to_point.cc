#include "distrun/functional_point_to_point.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backends/group/collective_checks.h"
#include "backends/group/run_collective.h"

namespace distrun::functional {

namespace {

using internal::CallSite;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using Kind = P2POp::Kind;

// An operation, and what its backward pass needs. `room` describes the tensor of the operation.
struct Message {
  Kind kind = Kind::kSend;
  AnyRank peer = 0;
  int tag = 0;
  bool wants_gradient = false;
  std::vector<std::int64_t> sizes = {};
  at::TensorOptions options = {};

  at::Tensor room() const { return at::empty(sizes, options); }
};

struct Messages : torch::CustomClassHolder {
  const char* function = "";
  Group group;
  std::vector<Message> list;
};
using MessagesPtr = c10::intrusive_ptr<Messages>;

// A batch of one blocks, so that errors name send() or recv().
void carry_out(const Messages& messages, const std::vector<P2POp>& operations) {
  if (messages.list.size() > 1) {
    for (const Work& work : distrun::batch_isend_irecv(operations)) work.wait();
    return;
  }
  const auto& [kind, tensor, peer, options] = operations.front();
  if (kind == Kind::kSend) {
    distrun::send(tensor, peer, options);
  } else {
    distrun::recv(tensor, peer, options);
  }
}

PointToPointOptions options_of(const Messages& messages, const Message& one) {
  return {.group = messages.group, .tag = one.tag};
}

struct Exchange : Function<Exchange> {
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors,
                               const MessagesPtr& messages) {
    std::vector<P2POp> operations;
    variable_list results, without_gradient;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const Message& one = messages->list[i];
      const bool sends = one.kind == Kind::kSend;
      operations.push_back({one.kind, sends ? tensors[i].detach() : one.room(), one.peer,
                            options_of(*messages, one)});
      results.push_back(sends ? at::zeros({}, one.options.dtype(at::kFloat))
                              : operations.back().tensor);
      if (!one.wants_gradient) without_gradient.push_back(results.back());
    }
    ctx->mark_non_differentiable(without_gradient);
    ctx->saved_data["messages"] = c10::IValue::make_capsule(messages);
    carry_out(*messages, operations);
    return results;
  }

  // In reverse order, because messages with the same tag arrive in the order of the calls.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto capsule = ctx->saved_data.at("messages").toCapsule();
    const auto& messages = static_cast<const Messages&>(*capsule);
    TORCH_CHECK(!at::GradMode::is_enabled(), messages.function, " on rank ", get_rank(),
                ": gradients of gradients (create_graph) are not supported");
    variable_list results(gradients.size() + 1);  // The last argument has no gradient.
    std::vector<P2POp> operations;
    for (std::size_t i = gradients.size(); i-- > 0;) {
      const Message& one = messages.list[i];
      if (!one.wants_gradient) continue;
      const bool sends = one.kind == Kind::kReceive;
      operations.push_back({sends ? Kind::kSend : Kind::kReceive, sends ? gradients[i] : one.room(),
                            one.peer, options_of(messages, one)});
      if (!sends) results[i] = operations.back().tensor;
    }
    carry_out(messages, operations);
    return results;
  }
};

// `function` is a literal.
variable_list run(const char* function, const std::vector<P2POp>& operations) {
  TORCH_CHECK_VALUE(!operations.empty(), function, ": the list of operations is empty");
  const Group& group = operations.front().options.group;
  const CallSite site{function, group};
  site.check(group.is_member(), "it is not in ", internal::Described{group});
  auto messages = c10::make_intrusive<Messages>();
  messages->function = function;
  messages->group = internal::pinned(group);
  variable_list tensors;
  for (const P2POp& one : operations) {
    site.check(one.tensor.defined(), "a tensor is not defined");
    TORCH_CHECK_VALUE(one.options.group == group, function,
                      ": all operations must be in the same group");
    const bool wants = at::GradMode::is_enabled() && one.tensor.requires_grad();
    tensors.push_back(one.tensor);
    messages->list.push_back({one.kind, one.peer, one.options.tag, wants, one.tensor.sizes().vec(),
                              one.tensor.options()});
  }
  return Exchange::apply(at::TensorList(tensors), messages);
}

}  // namespace

at::Tensor send(const at::Tensor& tensor, AnyRank dst, const PointToPointOptions& options) {
  return run("send", {{Kind::kSend, tensor, dst, options}}).front();
}

at::Tensor recv(const at::Tensor& like, AnyRank src, const PointToPointOptions& options) {
  return run("recv", {{Kind::kReceive, like, src, options}}).front();
}

std::vector<at::Tensor> batch_isend_irecv(const std::vector<P2POp>& operations) {
  return run("batch_isend_irecv", operations);
}

}  // namespace distrun::functional
