// While it lives, the lists of an optimizer's parameter groups are these.
//
//     const NarrowedGroups narrowed(optimizer, {{weight}, {}});
//     optimizer.step();                       // Updates `weight` only.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

namespace distrun::internal {

class NarrowedGroups {
 public:
  // `lists` has an element for each of the first groups.  Later groups stay as they are.
  NarrowedGroups(torch::optim::Optimizer& optimizer, std::vector<std::vector<at::Tensor>> lists)
      : optimizer_(optimizer), lists_(std::move(lists)) {
    swap();
  }
  NarrowedGroups(const NarrowedGroups&) = delete;
  NarrowedGroups& operator=(const NarrowedGroups&) = delete;
  ~NarrowedGroups() { swap(); }

 private:
  void swap() {
    for (std::size_t g = 0; g < lists_.size(); ++g) {
      std::swap(optimizer_.param_groups()[g].params(), lists_[g]);
    }
  }

  torch::optim::Optimizer& optimizer_;
  std::vector<std::vector<at::Tensor>> lists_;
};

}  // namespace distrun::internal
