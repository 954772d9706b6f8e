// Calls the constructor of c10d::Reducer, which differs between versions of LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace distrun::internal {

// Takes the arguments of LibTorch 2.11, and disables later additions: sizes of each bucket, batched
// copies.
template <class Reducer = c10d::Reducer, class... Arguments>
std::shared_ptr<Reducer> construct_reducer(Arguments&&... arguments) {
  const std::vector<int64_t> sizes_of_each;
  if constexpr (std::is_constructible_v<Reducer, Arguments..., std::vector<int64_t>, bool>) {
    return std::make_shared<Reducer>(std::forward<Arguments>(arguments)..., sizes_of_each, false);
  } else if constexpr (std::is_constructible_v<Reducer, Arguments..., std::vector<int64_t>>) {
    return std::make_shared<Reducer>(std::forward<Arguments>(arguments)..., sizes_of_each);
  } else {
    return std::make_shared<Reducer>(std::forward<Arguments>(arguments)...);
  }
}

}  // namespace distrun::internal
