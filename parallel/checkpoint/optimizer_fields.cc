#include "parallel/checkpoint/optimizer_fields.h"

#include <memory>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace distrun::internal {

namespace {

namespace optim = torch::optim;
using Fields = std::vector<OptimizerField>;

template <class State>
Fields fields_of_adam(State& state) {
  return {{.name = "step", .number = &state.step()},
          {.name = "exp_avg", .tensor = &state.exp_avg()},
          {.name = "exp_avg_sq", .tensor = &state.exp_avg_sq()},
          {.name = "max_exp_avg_sq", .tensor = &state.max_exp_avg_sq()}};
}
Fields fields_in(optim::AdamParamState& state) { return fields_of_adam(state); }
Fields fields_in(optim::AdamWParamState& state) { return fields_of_adam(state); }
Fields fields_in(optim::SGDParamState& state) {
  return {{.name = "momentum_buffer", .tensor = &state.momentum_buffer()}};
}
Fields fields_in(optim::RMSpropParamState& state) {
  return {{.name = "step", .number = &state.step()},
          {.name = "square_avg", .tensor = &state.square_avg()},
          {.name = "momentum_buffer", .tensor = &state.momentum_buffer()},
          {.name = "grad_avg", .tensor = &state.grad_avg()}};
}
Fields fields_in(optim::AdagradParamState& state) {
  return {{.name = "step", .number = &state.step()}, {.name = "sum", .tensor = &state.sum()}};
}

// Whether `optimizer` is an Optimizer; if it is, fills `fields`.
template <class Optimizer, class State>
bool take_fields(optim::Optimizer& optimizer, const at::Tensor& parameter, bool creates,
                 Fields& fields) {
  if (dynamic_cast<Optimizer*>(&optimizer) == nullptr) return false;
  auto& all = optimizer.state();
  void* const key = parameter.unsafeGetTensorImpl();
  if (const auto found = all.find(key); found != all.end()) {
    fields = fields_in(dynamic_cast<State&>(*found->second));
  } else if (creates) {
    auto made = std::make_unique<State>();
    fields = fields_in(*made);
    all[key] = std::move(made);
  }
  return true;
}

}  // namespace

std::optional<Fields> fields_of(optim::Optimizer& optimizer, const at::Tensor& parameter,
                                bool creates) {
  using namespace torch::optim;  // NOLINT(google-build-using-namespace)
  Fields fields;
  const bool is_known =
      take_fields<AdamW, AdamWParamState>(optimizer, parameter, creates, fields) ||
      take_fields<Adam, AdamParamState>(optimizer, parameter, creates, fields) ||
      take_fields<SGD, SGDParamState>(optimizer, parameter, creates, fields) ||
      take_fields<RMSprop, RMSpropParamState>(optimizer, parameter, creates, fields) ||
      take_fields<Adagrad, AdagradParamState>(optimizer, parameter, creates, fields);
  if (!is_known) return std::nullopt;
  return fields;
}

}  // namespace distrun::internal
