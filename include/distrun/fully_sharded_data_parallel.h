// FullyShardedDataParallel (FSDP) trains one module on several ranks.  Unlike with
// DistributedDataParallel, each rank keeps only a share of the parameters, gradients and optimizer
// state, so models can be larger than the memory of one rank.
//
//     struct BlockImpl : torch::nn::Module {
//       torch::nn::Linear wide{nullptr}, narrow{nullptr};
//       BlockImpl() { … }
//       at::Tensor forward(const at::Tensor& x) { return x + narrow(at::relu(wide(x))); }
//     };
//     TORCH_MODULE(Block);
//
//     struct NetImpl : torch::nn::Module {
//       std::vector<std::shared_ptr<FullyShardedDataParallel<Block>>> blocks;
//       NetImpl() {
//         for (int i = 0; i < 24; ++i) {
//           blocks.push_back(register_module("block" + std::to_string(i),
//               std::make_shared<FullyShardedDataParallel<Block>>(Block())));
//         }
//       }
//       at::Tensor forward(at::Tensor x) {
//         for (const auto& block : blocks) x = block->forward(x);
//         return x;
//       }
//     };
//     TORCH_MODULE(Net);
//
//     init_process_group("gloo");
//     FullyShardedDataParallel<Net> fsdp{Net()};
//     torch::optim::Adam optimizer(fsdp.parameters(), 1e-3);   // After the construction.
//     for (const auto& [inputs, targets] : share_of(get_rank())) {
//       optimizer.zero_grad();
//       loss(fsdp(inputs), targets).backward();
//       optimizer.step();
//     }
//
// Each FullyShardedDataParallel is a unit.  A unit shards the parameters of its module, except
// those of units within.  It gathers all of its parameters from the other ranks before forward()
// and again before its backward, and frees them after each.  After its backward, the gradients are
// averaged over the ranks, and each rank keeps the gradients of its shard.  Therefore, make a unit
// of each large block of the model, and one of the whole model, as above.  With one unit for the
// whole model, all parameters are gathered at once.  Units that no unit contains do not know of
// each other: each keeps its memory between forward and backward, and none prefetches.
//
// Outside forward() and backward(), each parameter is the part of it that this rank keeps: a tensor
// with one dimension, often empty.  Parameters remain the same tensors all the time, so members of
// modules stay valid.  An optimizer that treats each element alone, such as SGD, Adam or AdamW,
// computes the same as with whole parameters.  For weight decay, use the optimizer's option: a
// penalty in the loss would see shards.
//
// Construct inner units before outer ones.  A unit can be a member of a module, an element of
// torch::nn::Sequential (as a shared_ptr), or the whole model.  Its module can be any
// torch::nn::Module.  (An element of torch::nn::Sequential cannot have default arguments.)
// forward() may take any arguments and may return void or any type that visit_tensors.h supports.
// If some parameters belong to this unit and not to one within, the module gets the caller's
// tensors on the device of these parameters, and in the dtype of FsdpOptions::mp_policy.
//
// Rules for the module and the loss:
//   - Call backward() only on tensors that are computed from results of forward(), and not on a
//     tensor that forward() stores in a member.
//   - Use the parameters of a unit only in its forward().  Do not return a parameter or a view of
//     one.
//   - Use a parameter that two submodules share in one unit only.
//   - Gradients of gradients (create_graph) are not supported.
//   - If you construct an optimizer for a unit with two names, list its parameters once.
//   - All ranks must construct the same units in the same order, and call forward() and backward()
//     of the same units in the same order.
//
// A parameter's gradient is the mean over all ranks.  A rank on which the parameter gets no
// gradient counts as zero.
//
// The names in fsdp.named_parameters() have a component "module" for each unit.
// FsdpModule::full_state_dict() has the names of your module.  The state of an optimizer
// is that of this rank's shards; distrun does not gather it.
//
// Ownership: the unit and the graph of its results keep the module alive.  When the unit is
// destroyed, the module remains sharded.
// Blocks: the constructor blocks until every rank has called it.  forward() and backward() block
// until the other ranks have gathered the same parameters.
// Throws: the constructor throws c10::ValueError on every rank if on any rank the module is null or
// has parameters of different dtypes or devices, or if a parameter is sparse, not a leaf, or
// belongs to another unit, or if parameters, buffers or options differ between ranks.  It also
// throws c10::ValueError if this rank is not in the group.  forward() throws c10::Error if the data
// of a parameter were replaced, and backward() if a gradient reaches a parameter other than through
// a result of forward().  Both also throw the exceptions of collectives.h.
// Thread safety: one thread at a time.
// Cost: with P elements in all units and N ranks, each rank keeps P / N parameters, and as many
// gradients and elements of each state of the optimizer.  In addition, it keeps the gathered
// parameters of the current unit and of the next (FsdpOptions::prefetch), those of the outermost
// unit, and gradients of two units.  A step gathers P elements twice and reduces them once.
// PyTorch source: torch/distributed/fsdp/.
#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>

#include "distrun/detail/module_traits.h"
#include "distrun/detail/move_arguments.h"
#include "distrun/fsdp_module.h"
#include "distrun/visit_tensors.h"

namespace distrun {

namespace internal {

// The parameters of a module's forward(); void if it is a template or overloaded.
template <class Module>
struct ForwardSignature {
  using Type = void;
};
template <class Function>
struct MemberSignature;
template <class Result, class Class, class... Arguments>
struct MemberSignature<Result (Class::*)(Arguments...)> {
  using Type = Result(Arguments...);
};
template <class Result, class Class, class... Arguments>
struct MemberSignature<Result (Class::*)(Arguments...) const> {
  using Type = Result(Arguments...);
};
template <class Module>
requires requires { &Module::forward; }
struct ForwardSignature<Module> : MemberSignature<decltype(&Module::forward)> {};
// Its forward() is a template, for any arguments; this is the usual call.
template <>
struct ForwardSignature<torch::nn::SequentialImpl> {
  using Type = at::Tensor(at::Tensor);
};

// Calls a module within its unit.  (A parameter named Module would be hidden by the base class.)
template <class Wrapped>
class FsdpCaller : public FsdpModule {
 public:
  // Returns your module.
  const std::shared_ptr<Wrapped>& module() const { return module_; }

  // Does the same as forward().
  template <class... Arguments>
  requires ForwardsWith<Wrapped, Arguments...>
  auto operator()(Arguments&&... arguments) { return run(std::forward<Arguments>(arguments)...); }

 protected:
  FsdpCaller(std::shared_ptr<Wrapped> module, const FsdpOptions& options)
      : FsdpModule(module, options), module_(std::move(module)) {}

  template <class... Arguments>
  auto run(Arguments&&... arguments) {
    using Result = decltype(module_->forward(std::forward<Arguments>(arguments)...));
    using Output = std::conditional_t<std::is_void_v<Result>, void, std::remove_cvref_t<Result>>;
    Forward its(unit_);
    std::tuple<Changed<Arguments>...> copies(
        internal::changed(std::forward<Arguments>(arguments),
                          [&](const at::Tensor& tensor) { return its.input(tensor); })...);
    const auto call = [&](auto&... copy) {
      return static_cast<Output>(module_->forward(static_cast<Arguments&&>(copy)...));
    };
    if constexpr (std::is_void_v<Output>) {
      std::apply(call, copies);
      its.end({});
    } else {
      static_assert(KnowsTensors<Output>,
                    "distrun cannot find or replace the tensors in the result of forward(): "
                    "write a visit_tensors() for its type, see distrun/visit_tensors.h");
      Output output = std::apply(call, copies);
      // Without this condition, a type that fails the assertion would cause more errors.
      if constexpr (KnowsTensors<Output>) {
        std::vector<at::Tensor> tensors;
        for_each_tensor(output, [&](at::Tensor& tensor) { tensors.push_back(tensor); });
        tensors = its.end(std::move(tensors));
        auto next = tensors.begin();
        for_each_tensor(output, [&](at::Tensor& tensor) { tensor = *next++; });
      }
      return output;
    }
  }

 private:
  std::shared_ptr<Wrapped> module_;
};

// Has a forward() with the parameters of the module's.  torch::nn::Sequential needs one that is no
// template.
template <class Wrapped, class Signature = typename ForwardSignature<Wrapped>::Type>
class FsdpForward : public FsdpCaller<Wrapped> {
 public:
  template <class... Arguments>
  requires ForwardsWith<Wrapped, Arguments...>
  auto forward(Arguments&&... arguments) {
    return this->run(std::forward<Arguments>(arguments)...);
  }

 protected:
  using FsdpCaller<Wrapped>::FsdpCaller;
};
template <class Wrapped, class Result, class... Arguments>
class FsdpForward<Wrapped, Result(Arguments...)> : public FsdpCaller<Wrapped> {
 public:
  std::remove_cvref_t<Result> forward(Arguments... arguments) {
    return this->run(std::forward<Arguments>(arguments)...);
  }

 protected:
  using FsdpCaller<Wrapped>::FsdpCaller;
};

}  // namespace internal

// Net is a torch::nn::Module or a module holder (TORCH_MODULE).  forward(arguments...) calls the
// module's forward() with gathered parameters.  If the module's forward() has default arguments or
// overloads, call the unit as in fsdp(x), because forward() needs all arguments then.
template <class Net>
class FullyShardedDataParallel
    : public internal::FsdpForward<typename internal::ModuleOf<Net>::Type> {
 public:
  // The class of the module.  If Net is a module holder, it is the class that Net holds.  Otherwise
  // it is Net.
  using ModuleType = typename internal::ModuleOf<Net>::Type;
  static_assert(std::is_base_of_v<torch::nn::Module, ModuleType>,
                "FullyShardedDataParallel needs a torch::nn::Module");

  // Shards the module's parameters.  Keeps a reference to the module.
  explicit FullyShardedDataParallel(std::shared_ptr<ModuleType> module,
                                    const FsdpOptions& options = {})
      : internal::FsdpForward<ModuleType>(std::move(module), options) {}
  // Does the same for the module that a module holder holds.
  explicit FullyShardedDataParallel(const Net& holder,
                                    const FsdpOptions& options = {}) requires requires {
    holder.ptr();
  } : FullyShardedDataParallel(holder.is_empty() ? nullptr : holder.ptr(), options) {
  }
};

// A deduction guide: deduces Net from a pointer to a module.
template <class Net>
FullyShardedDataParallel(std::shared_ptr<Net>, FsdpOptions = {}) -> FullyShardedDataParallel<Net>;

}  // namespace distrun
