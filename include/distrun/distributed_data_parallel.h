// DistributedDataParallel trains one module on several ranks.  Each rank computes gradients from
// its share of the data.  backward() averages the gradients over all ranks, so the optimizers of
// all ranks take the same step.
//
//     init_process_group("gloo");
//     DistributedDataParallel ddp(std::make_shared<Net>());        // Broadcasts rank 0's values.
//     torch::optim::SGD optimizer(ddp.parameters(), 0.1);
//     for (const auto& [images, digits] : share_of(get_rank())) {  // This rank's batches.
//       optimizer.zero_grad();
//       loss(ddp(images), digits).backward();                        // Averages the gradients.
//       optimizer.step();
//     }
//     if (get_rank() == 0) torch::save(ddp.module(), "net.pt");
//
// Net is a torch::nn::Module or a module holder (TORCH_MODULE).  The module's forward() may take
// any arguments.  It may return void or any type that visit_tensors.h supports.  visit_tensors.h
// also describes how to support your own type.  If ranks have different numbers of batches, run the
// loop in a Join (join.h).
//
// Every rank constructs a DistributedDataParallel with its own copy of the module.  The copies must
// have the same parameters in the same order.  The constructor copies the parameters and buffers of
// group rank 0 to all ranks, unless DdpOptions::init_sync is false.  Each later forward() copies
// the buffers again, unless DdpOptions::broadcast_buffers is false.
//
// All ranks must call forward() and backward() the same number of times.  Calls under no_sync() and
// calls in a Join are exceptions: their number may differ between ranks.
//
// If you replace, freeze or unfreeze a parameter, construct a new DistributedDataParallel.  If two
// submodules share a weight, the gradient of this weight is reduced only once.
//
// DistributedDataParallel is itself a torch::nn::Module.  Your module is its child "module", so the
// names in ddp.named_parameters() start with "module.".  To save or load parameters, use
// ddp.module().  A DistributedDataParallel cannot be copied, and cannot be an element of
// torch::nn::Sequential.
//
// Some ranks of the group may be Python programs that use PyTorch's DistributedDataParallel.  If
// DdpOptions::init_sync is true, the constructors on the C++ ranks compare the parameters that
// require a gradient.  If the number, sizes or dtypes of these parameters differ, the constructor
// throws on every C++ rank, and the text names the first parameter that differs.  A Python rank
// makes only PyTorch's own check.
//
// The constructor does not compare buffers or options.  It also does not notice if parameters with
// the same sizes and dtypes are in a different order.  With such differences, training computes
// wrong values or times out.  With TORCH_DISTRIBUTED_DEBUG=DETAIL, the ranks compare each
// collective.  This comparison detects some of the differences.
//
// Throws: the exceptions of DdpReducer (ddp_reducer.h).
// Thread safety: one thread at a time.
// Cost: see DdpReducer (ddp_reducer.h).
// PyTorch source: torch/nn/parallel/distributed.py; c10d::Reducer reduces the gradients.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "distrun/ddp_reducer.h"
#include "distrun/detail/module_traits.h"
#include "distrun/detail/move_arguments.h"
#include "distrun/visit_tensors.h"

namespace distrun {

// Returns the parameters and buffers of a module, for a DdpReducer.  Their names come from
// named_parameters() and named_buffers().  In the result, the field `sparse_gradient` of
// a parameter is true if the parameter belongs to a torch::nn::Embedding or EmbeddingBag whose
// options have sparse(true).  The result keeps the module alive.
//
// Throws: c10::ValueError if the module is null.
DdpModel ddp_model(const std::shared_ptr<torch::nn::Module>& module);

template <class Net>
class DistributedDataParallel : public torch::nn::Module {
 public:
  // The class of the module.  If Net is a module holder, it is the class that Net holds.  Otherwise
  // it is Net.
  using ModuleType = typename internal::ModuleOf<Net>::Type;
  static_assert(
      std::is_base_of_v<torch::nn::Module, ModuleType>,
      "DistributedDataParallel needs a torch::nn::Module; for another type, use DdpReducer");

  // Keeps a reference to the module.  The caller can still use the module.
  //
  // Blocks: until every rank of the group has called the constructor.  If `init_sync` is false, the
  // constructor does not block.
  // Throws: the exceptions of DdpReducer's constructor.
  // Cost: the cost of DdpReducer's constructor.
  explicit DistributedDataParallel(std::shared_ptr<ModuleType> module,
                                   const DdpOptions& options = {})
      : torch::nn::Module("DistributedDataParallel"),
        module_(std::move(module)),
        reducer_(ddp_model(module_), options) {
    register_module("module", module_);
  }
  // Does the same for the module that a module holder holds.
  explicit DistributedDataParallel(const Net& holder,
                                   const DdpOptions& options = {}) requires requires {
    holder.ptr();
  } : DistributedDataParallel(holder.ptr(), options) {
  }

  // Calls the module's forward() and prepares the reduction of gradients.  For each forward() that
  // runs with gradients enabled, call backward() exactly once (see DdpReducer::before_forward()).
  //
  // Blocks: as DdpReducer::before_forward().
  // Throws: the exceptions of DdpReducer::before_forward() and of the module's forward().
  // Cost: the cost of DdpReducer::before_forward() and DdpReducer::after_forward().  If
  // DdpOptions::device_ids is set, each argument tensor that is not on the module's GPU is copied
  // too.
  template <class... Arguments>
  requires ForwardsWith<ModuleType, Arguments...>
  auto forward(Arguments&&... arguments) {
    reducer_.before_forward();
    try {
      return prepared_forward(std::forward<Arguments>(arguments)...);
    } catch (...) {
      reducer_.abandon_forward();
      throw;
    }
  }
  // Does the same as forward().
  template <class... Arguments>
  requires ForwardsWith<ModuleType, Arguments...>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // Returns your module.
  const std::shared_ptr<ModuleType>& module() const { return module_; }

  // Returns a guard.  If forward() runs while the guard exists, the backward() of its outputs
  // accumulates gradients on this rank, and does not reduce them.  See DdpReducer::no_sync().
  //
  //     {
  //       const auto alone = ddp.no_sync();
  //       loss(ddp(first)).backward();
  //     }
  //     loss(ddp(second)).backward();                // Reduces the sum of both gradients.
  [[nodiscard]] DdpReducer::NoSync no_sync() { return reducer_.no_sync(); }

  // Registers a communication hook (comm_hook.h).  backward() then reduces gradients with this
  // hook, and does not average them itself.  See DdpReducer::register_comm_hook().
  template <CommHookFunction Hook>
  void register_comm_hook(Hook hook, const std::string& name = "comm_hook") {
    reducer_.register_comm_hook(std::move(hook), name);
  }
  // Registers a hook with a state, as in Python.  Each bucket calls hook(state, bucket).
  //
  //     ddp.register_comm_hook(Group(), bf16_compress_hook);                       // comm_hooks.h
  template <class State, class Hook>
  requires StatefulCommHookFunction<Hook, State>
  void register_comm_hook(State state, Hook hook, const std::string& name = "comm_hook") {
    reducer_.register_comm_hook(with_state(std::move(state), std::move(hook)), name);
  }
  // Does the same with one of LibTorch's hooks.
  void register_builtin_comm_hook(BuiltinCommHook hook) {
    reducer_.register_builtin_comm_hook(hook);
  }

  // Returns the result of DdpReducer::get_ddp_logging_data().
  c10::DDPLoggingData get_ddp_logging_data() const { return reducer_.get_ddp_logging_data(); }

  // Returns the DdpReducer, which reduces the gradients.
  DdpReducer& reducer() { return reducer_; }
  // Converts to a Joinable, so that you can write Join({ddp}) (join.h).
  operator Joinable&() { return reducer_; }  // NOLINT: implicit: Python's DDP is a Joinable.

 private:
  // Runs the module between before_forward() and after_forward().
  template <class... Arguments>
  auto prepared_forward(Arguments&&... arguments) {
    using Output = std::remove_cvref_t<decltype(call(std::forward<Arguments>(arguments)...))>;
    if constexpr (std::is_void_v<Output>) {
      call(std::forward<Arguments>(arguments)...);
      reducer_.after_forward({});
    } else {
      static_assert(KnowsTensors<Output>,
                    "distrun cannot find or replace the tensors in the result of forward(): "
                    "write a visit_tensors() for its type, see distrun/visit_tensors.h");
      Output output = call(std::forward<Arguments>(arguments)...);
      // Without this condition, a type that fails the assertion would cause more errors.
      if constexpr (KnowsTensors<Output>) replace_tensors(output);
      return output;
    }
  }

  template <class... Arguments>
  decltype(auto) call(Arguments&&... arguments) {
    using Result = decltype(module_->forward(std::forward<Arguments>(arguments)...));
    using Output = std::conditional_t<std::is_void_v<Result>, void, std::remove_cvref_t<Result>>;
    if (!reducer_.converts_inputs())
      return static_cast<Output>(module_->forward(std::forward<Arguments>(arguments)...));
    std::tuple<internal::Changed<Arguments>...> copies(internal::changed(
        std::forward<Arguments>(arguments),
        [&](const at::Tensor& tensor) { return reducer_.converted_input(tensor); })...);
    return std::apply(
        [&](auto&... copy) {
          return static_cast<Output>(module_->forward(static_cast<Arguments&&>(copy)...));
        },
        copies);
  }

  template <class Output>
  void replace_tensors(Output& output) {
    std::vector<at::Tensor> tensors;
    for_each_tensor(output, [&](at::Tensor& tensor) { tensors.push_back(tensor); });
    tensors = reducer_.after_forward(std::move(tensors));
    auto next = tensors.begin();
    for_each_tensor(output, [&](at::Tensor& tensor) { tensor = *next++; });
  }

  std::shared_ptr<ModuleType> module_;
  DdpReducer reducer_;
};

// A deduction guide: deduces Net from a pointer to a module.
template <class Net>
DistributedDataParallel(std::shared_ptr<Net>, DdpOptions = {}) -> DistributedDataParallel<Net>;

}  // namespace distrun
