#include "parallel/norm/normalize.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/custom_class.h>

#include "parallel/norm/batch_statistics.h"

namespace distrun::internal {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormalizationCall : torch::CustomClassHolder {
  NormalizationCall(bool with_bias, double its_eps, AllBatches its_batches, Group its_group)
      : has_bias(with_bias),
        eps(its_eps),
        batches(std::move(its_batches)),
        group(std::move(its_group)) {}
  bool has_bias;
  double eps;
  AllBatches batches;
  Group group;
};

// Gradients that throw if they are differentiated: their derivatives would lack those of the
// collective.
variable_list once_differentiable(variable_list gradients) {
  for (at::Tensor& one : gradients) {
    if (one.defined()) one.requires_grad_();
  }
  torch::autograd::DelayedError error(
      "SyncBatchNorm: second derivatives (create_graph) are not supported",
      static_cast<std::int64_t>(gradients.size()));
  return error.apply(std::move(gradients));
}

struct NormalizeFunction : torch::autograd::Function<NormalizeFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias,
                            const c10::intrusive_ptr<NormalizationCall>& call) {
    const Normalization by =
        normalization(input, call->batches.statistics, call->eps, weight.value_or(at::Tensor()),
                      bias.value_or(at::Tensor()));
    // The weight itself, whose memory FullyShardedDataParallel can free until backward.
    context->save_for_backward({input, weight.value_or(at::Tensor())});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return normalized(input, by);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const auto call = c10::static_intrusive_pointer_cast<NormalizationCall>(
        context->saved_data["call"].toCapsule());
    variable_list results(4);
    {
      const at::NoGradGuard no_grad;
      const AllBatches& batches = call->batches;
      const Normalization by =
          normalization(input, batches.statistics, call->eps, weight, at::Tensor());
      const at::Tensor gradient = gradients[0].contiguous(input.suggest_memory_format());
      GradientSums sums = gradient_sums(gradient, input, by);
      // Of this rank's batch. The engine casts them to the dtype of the parameters.
      std::size_t next = 1;  // Undefined parameters have no number.
      if (weight.defined() && context->needs_input_grad(next++)) {
        results[1] = sums.of_covariance * by.invstd;
      }
      if (call->has_bias && context->needs_input_grad(next)) results[2] = sums.of_gradient;
      // Every rank, whether it needs the result or not.
      if (batches.has_input_gradients) sums = exchange_gradients(sums, call->group);
      if (context->needs_input_grad(0)) {
        results[0] = input_gradient(gradient, input, by, sums, batches.statistics.count);
      }
    }
    return at::GradMode::is_enabled() ? once_differentiable(std::move(results)) : results;
  }
};

}  // namespace

at::Tensor normalize(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias,
                     double eps, const AllBatches& batches, const Group& group) {
  // An undefined tensor must not be an argument of apply().
  const auto optional = [](const at::Tensor& one) {
    return one.defined() ? std::optional(one) : std::nullopt;
  };
  return NormalizeFunction::apply(
      input, optional(weight), optional(bias),
      c10::make_intrusive<NormalizationCall>(bias.defined(), eps, batches, group));
}

}  // namespace distrun::internal
