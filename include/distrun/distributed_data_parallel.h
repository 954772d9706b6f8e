// DistributedDataParallel trains one module on several ranks.  Each rank computes gradients from
// its share of the data; backward() averages them over all ranks, so every rank takes the same
// step.
//
//     init_process_group("gloo");
//     DistributedDataParallel ddp(std::make_shared<Net>());     // Rank 0's values, on each rank.
//     torch::optim::SGD optimizer(ddp.parameters(), 0.1);
//     for (const auto& [images, digits] : share_of(get_rank())) {
//       optimizer.zero_grad();
//       loss(ddp(images), digits).backward();                   // Reduces while it computes.
//       optimizer.step();
//     }
//     if (get_rank() == 0) torch::save(ddp.module(), "net.pt");
//
// Net is a torch::nn::Module or a module holder (TORCH_MODULE).  Its forward() may have any
// arguments.  visit_tensors.h must support the type of its result; visit_tensors.h also shows how
// to support your own type.  If ranks have uneven inputs, run the loop in a Join (join.h).
//
// Every rank constructs a DistributedDataParallel with its own copy of the module: the same
// parameters in the same order.  All ranks call forward() and backward() equally often, except in
// no_sync() and Join.  The constructor copies the parameters and buffers of the group's rank 0 to
// all ranks, unless `init_sync` is false.  Later forwards copy the buffers again, unless
// `broadcast_buffers` is false (ddp_options.h).  If you replace, freeze or unfreeze a parameter
// later, construct a new DistributedDataParallel.  If two submodules share a weight, its gradient
// is reduced once.
//
// DistributedDataParallel is a torch::nn::Module itself.  The user's module is its child "module",
// so the names in ddp.named_parameters() start with "module.".  Save and load ddp.module().  A
// DistributedDataParallel cannot be copied, and cannot be an element of torch::nn::Sequential.
//
// Throws: the constructor, forward() and backward() throw the exceptions of DdpReducer
// (ddp_reducer.h).  If `init_sync` is true, C++ ranks compare the parameters among themselves.  If
// their number, sizes or dtypes differ, each C++ rank throws an error that names the parameter.  A
// Python rank in the group makes only PyTorch's own check.  Ranks do not compare names, order,
// buffers or options.  If these differ, training uses wrong values or times out.  With
// TORCH_DISTRIBUTED_DEBUG=DETAIL, the ranks compare their collectives, which finds some of these
// differences.
// Thread safety: one thread at a time.
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
#include "distrun/detail/move_arguments.h"
#include "distrun/visit_tensors.h"

namespace distrun {

// Returns the parameters and buffers of a module, for a DdpReducer.  Their names are those of
// named_parameters() and named_buffers().  `sparse_gradient` is set for the parameters of a
// torch::nn::Embedding or EmbeddingBag whose options have sparse(true).  The result keeps the
// module alive.
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

// `Module` has a forward() that takes these arguments.
template <class Module, class... Arguments>
concept ForwardsWith = requires(Module& module, Arguments&&... arguments) {
  module.forward(std::forward<Arguments>(arguments)...);
};

template <class Net>
class DistributedDataParallel : public torch::nn::Module {
 public:
  // The class of the module: Net, or the class that Net holds if Net is a module holder.
  using ModuleType = typename internal::ModuleOf<Net>::Type;
  static_assert(std::is_base_of_v<torch::nn::Module, ModuleType>,
                "DistributedDataParallel needs a torch::nn::Module; see DdpReducer for others");

  // Takes the module, which the caller can still use.
  //
  // Blocks: until every rank of the group has constructed it, unless `init_sync` is false.
  // Throws: the exceptions of DdpReducer's constructor.
  explicit DistributedDataParallel(std::shared_ptr<ModuleType> module,
                                   const DdpOptions& options = {})
      : torch::nn::Module("DistributedDataParallel"),
        module_(std::move(module)),
        reducer_(ddp_model(module_), options) {
    register_module("module", module_);
  }
  // Does the same for the module of a holder.
  explicit DistributedDataParallel(const Net& holder,
                                   const DdpOptions& options = {}) requires requires {
    holder.ptr();
  } : DistributedDataParallel(holder.ptr(), options) {
  }

  // Calls the module's forward() and prepares the reduction of gradients.  Call backward() once for
  // each forward() that runs with gradients enabled: see DdpReducer::before_forward().
  //
  // Blocks: may wait for rank 0 of the group: see DdpReducer::before_forward().
  // Throws: the exceptions of DdpReducer::before_forward() and of the module's forward().
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
                    "distrun cannot find or replace the tensors in the result of forward(): "
                    "write a visit_tensors() for its type, see distrun/visit_tensors.h");
      Output output = call(std::forward<Arguments>(arguments)...);
      // Without this condition, a type that fails the assertion would cause more errors.
      if constexpr (KnowsTensors<Output>) replace_tensors(output);
      return output;
    }
  }
  // Does the same as forward().
  template <class... Arguments>
  requires ForwardsWith<ModuleType, Arguments...>
  auto operator()(Arguments&&... arguments) {
    return forward(std::forward<Arguments>(arguments)...);
  }

  // Returns the user's module.
  const std::shared_ptr<ModuleType>& module() const { return module_; }

  // Accumulates gradients on this rank while the guard exists: see DdpReducer::no_sync().
  //
  //     {
  //       const auto alone = ddp.no_sync();
  //       loss(ddp(first)).backward();
  //     }
  //     loss(ddp(second)).backward();                // Reduces the sum of both gradients.
  [[nodiscard]] DdpReducer::NoSync no_sync() { return reducer_.no_sync(); }

  // Reduces gradients with this hook instead of averaging them (comm_hook.h): see
  // DdpReducer::register_comm_hook().
  template <CommHookFunction Hook>
  void register_comm_hook(Hook hook, const std::string& name = "comm_hook") {
    reducer_.register_comm_hook(std::move(hook), name);
  }
  // Does the same with one of LibTorch's hooks.
  void register_builtin_comm_hook(BuiltinCommHook hook) {
    reducer_.register_builtin_comm_hook(hook);
  }

  // Returns DdpReducer::get_ddp_logging_data().
  c10::DDPLoggingData get_ddp_logging_data() const { return reducer_.get_ddp_logging_data(); }

  // Returns the DdpReducer, which reduces the gradients.
  DdpReducer& reducer() { return reducer_; }
  // Allows Join({ddp}): see join.h.
  operator Joinable&() { return reducer_; }  // NOLINT: implicit: Python's DDP is a Joinable.

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

// Deduces Net from a pointer to a module.
template <class Net>
DistributedDataParallel(std::shared_ptr<Net>, DdpOptions = {}) -> DistributedDataParallel<Net>;

}  // namespace distrun
