// DistributedDataParallel trains one module on several ranks: each computes the gradients of its
// own share of the data, backward() makes them the mean of all, and so all take the same step.
//
//     init_process_group("gloo");
//     DistributedDataParallel ddp(std::make_shared<Net>());     // a copy of rank 0's, on each rank
//     torch::optim::SGD optimizer(ddp.parameters(), 0.1);
//     for (const auto& [images, digits] : share_of(get_rank())) {
//       optimizer.zero_grad();
//       loss(ddp(images), digits).backward();                   // reduced as they are computed
//       optimizer.step();
//     }
//     if (get_rank() == 0) torch::save(ddp.module(), "net.pt"); // what trained alone could have
//
// The module is any torch::nn::Module, or its holder (TORCH_MODULE), with any forward(): arguments
// are passed on, and what it returns is returned.  Which tensors are in that, and in the
// arguments, visit_tensors.h says; a type of your own needs a function there.
//
// Every rank makes it, with the same module, and calls it and backward() equally often; no_sync()
// and Join apart.  It takes the parameters' values of the group's rank 0, and the buffers before
// each forward.  Parameters that are replaced, frozen or thawed later are not noticed: make another
// one. A weight that is registered in two modules is reduced once.
//
// Where ranks have uneven inputs, the loop is run by a Join (join.h).
//
// ddp is a torch::nn::Module whose child is called "module", so its parameters are "module.…"; save
// and load ddp.module().  It cannot be copied, and does not fit into torch::nn::Sequential.
//
// Errors: as those of DdpReducer (ddp_reducer.h), in the constructor, forward() and backward().
// Modules whose parameters differ between ranks in number, sizes or dtypes are an error on every
// rank, which names the parameter; ranks in Python see what Python does.  Other names, orders,
// buffers or options are not compared; they may train on wrong values, or end by the timeout.
// Where that may be, run once with TORCH_DISTRIBUTED_DEBUG=DETAIL.
//
// Threads: one at a time.
//
// From torch/nn/parallel/distributed.py; gradients are reduced by c10d::Reducer.
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
#include "distrun/detail/move_arguments.h"
#include "distrun/visit_tensors.h"

namespace distrun {

// The tensors of a module, for a DdpReducer: names as in named_parameters(); gradients of
// torch::nn::Embedding and EmbeddingBag are sparse where their options say so.  The module is kept.
DdpModel ddp_model(const std::shared_ptr<torch::nn::Module>& module);

namespace internal {

template <class Module>
struct ModuleOf {
  using Type = Module;
};
template <class Holder>
requires requires { typename Holder::ContainedType; }
struct ModuleOf<Holder> {
  using Type = typename Holder::ContainedType;
};

}  // namespace internal

// `Module` has a forward() that takes these.
template <class Module, class... Arguments>
concept ForwardsWith = requires(Module& module, Arguments&&... arguments) {
  module.forward(std::forward<Arguments>(arguments)...);
};

// Net: derived from torch::nn::Module, or a holder of one.
template <class Net>
class DistributedDataParallel : public torch::nn::Module {
 public:
  using ModuleType = typename internal::ModuleOf<Net>::Type;
  static_assert(std::is_base_of_v<torch::nn::Module, ModuleType>,
                "DistributedDataParallel wants a torch::nn::Module; see DdpReducer for others");

  // A collective: returns when the group's ranks have come.  The module is shared with the caller.
  explicit DistributedDataParallel(std::shared_ptr<ModuleType> module,
                                   const DdpOptions& options = {})
      : torch::nn::Module("DistributedDataParallel"),
        module_(std::move(module)),
        reducer_(ddp_model(module_), options) {
    register_module("module", module_);
  }
  explicit DistributedDataParallel(const Net& holder,
                                   const DdpOptions& options = {}) requires requires {
    holder.ptr();
  } : DistributedDataParallel(holder.ptr(), options) {
  }

  // The module's forward(), with what is to be done before and after it.
  template <class... Arguments>
  requires ForwardsWith<ModuleType, Arguments...>
  auto forward(Arguments&&... arguments) {
    using Output = std::remove_cvref_t<decltype(call(std::forward<Arguments>(arguments)...))>;
    reducer_.before_forward();
    if constexpr (std::is_void_v<Output>) {
      call(std::forward<Arguments>(arguments)...);
      reducer_.after_forward({});
    } else {
      static_assert(KnowsTensors<Output>,
                    "the tensors in what forward() returns cannot be found, or not be replaced: "
                    "write a visit_tensors() for it, see distrun/visit_tensors.h");
      Output output = call(std::forward<Arguments>(arguments)...);
      if constexpr (KnowsTensors<Output>) replace_tensors(output);  // One error is enough.
      return output;
    }
  }
  template <class... Arguments>
  requires ForwardsWith<ModuleType, Arguments...>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  const std::shared_ptr<ModuleType>& module() const { return module_; }

  // While the guard lives, gradients add up on this rank: see DdpReducer.
  //
  //     {
  //       const auto alone = ddp.no_sync();
  //       loss(ddp(first)).backward();
  //     }
  //     loss(ddp(second)).backward();                          // Reduces the sum of both.
  [[nodiscard]] DdpReducer::NoSync no_sync() { return reducer_.no_sync(); }

  // See comm_hook.h.  One for each model, before its first backward.
  template <CommHookFunction Hook>
  void register_comm_hook(Hook hook, const std::string& name = "comm_hook") {
    reducer_.register_comm_hook(std::move(hook), name);
  }
  void register_builtin_comm_hook(BuiltinCommHook hook) {
    reducer_.register_builtin_comm_hook(hook);
  }

  // See DdpReducer.
  c10::DDPLoggingData get_ddp_logging_data() const { return reducer_.get_ddp_logging_data(); }

  DdpReducer& reducer() { return reducer_; }
  // Join({ddp}), see join.h.
  operator Joinable&() { return reducer_; }  // NOLINT: Python's is one, too.

 private:
  template <class... Arguments>
  decltype(auto) call(Arguments&&... arguments) {
    using Result = decltype(module_->forward(std::forward<Arguments>(arguments)...));
    using Output = std::conditional_t<std::is_void_v<Result>, void, std::remove_cvref_t<Result>>;
    const auto& device = reducer_.input_device();
    if (!device)
      return static_cast<Output>(module_->forward(std::forward<Arguments>(arguments)...));
    std::tuple<internal::Moved<Arguments>...> copies(
        internal::moved(std::forward<Arguments>(arguments), *device)...);
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

template <class Net>
DistributedDataParallel(std::shared_ptr<Net>, DdpOptions = {}) -> DistributedDataParallel<Net>;

}  // namespace distrun
