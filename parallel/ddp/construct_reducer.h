// c10d::Reducer has another constructor in each version of LibTorch: all that ours give are those
// of 2.11.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/reducer.hpp>

namespace distrun::internal {

// The arguments are those of 2.11, all of them.  Later versions also take sizes of each bucket, and
// whether gradients are copied in batches: none, no.
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
