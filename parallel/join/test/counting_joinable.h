// For tests of Join: a joinable that counts ranks, and calls a test's functions in its hooks.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/full.h>

#include "distrun/collectives.h"
#include "distrun/join.h"

namespace distrun::testing {

class CountingJoinable : public Joinable {
 public:
  explicit CountingJoinable(Group group = {}) : group_(std::move(group)) {}

  // Returns how many ranks have not joined.
  int step() {
    notify_join_context();
    return sum(weight_);
  }

  // The argument "weight" is each rank's contribution to the count.
  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override {
    weight_ = arguments.get("weight", std::int64_t{1});
    return std::make_unique<Hook>(*this);
  }
  c10::Device join_device() const override { return at::kCPU; }
  Group join_process_group() const override { return group_; }

  std::function<void()> in_main_hook = [] {};
  std::function<void()> in_post_hook = [] {};
  std::vector<bool> post_hooks;  // The argument of each call.

 private:
  class Hook : public JoinHook {
   public:
    explicit Hook(CountingJoinable& its) : its_(its) {}
    void main_hook() override {
      its_.in_main_hook();
      its_.sum(0);
    }
    void post_hook(bool is_last_joiner) override {
      its_.in_post_hook();
      its_.post_hooks.push_back(is_last_joiner);
    }

   private:
    CountingJoinable& its_;
  };

  int sum(std::int64_t own) const {
    const at::Tensor tensor = at::full({1}, own, at::kInt);
    all_reduce(tensor, ReduceOp::SUM, {.group = group_});
    return tensor.item<int>();
  }

  Group group_;
  std::int64_t weight_ = 1;
};

}  // namespace distrun::testing
