// What the wrappers of modules, DistributedDataParallel and FullyShardedDataParallel, need to know
// about a module's class.
#pragma once

#include <utility>

namespace distrun {

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

// Satisfied if `Module` has a forward() that accepts these arguments.
template <class Module, class... Arguments>
concept ForwardsWith = requires(Module& module, Arguments&&... arguments) {
  module.forward(std::forward<Arguments>(arguments)...);
};

}  // namespace distrun
