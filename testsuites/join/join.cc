#include "distrun/join.h"

#include <vector>

#include <ATen/ATen.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

constexpr int64_t kBefore = 41, kAfter = 42;

// Runs all_reduces in each iteration. The join's arguments say how many its hook runs, and whether
// its post hook does anything.
class AllReducer : public Joinable {
 public:
  explicit AllReducer(c10::Device device)
      : post_hook_tensor(at::full({1}, kBefore, device)), device_(device) {}

  double operator()(int64_t all_reduces) {
    notify_join_context();
    double total = 0;
    for (int64_t i = 0; i < all_reduces; ++i) {
      const at::Tensor one = at::ones({1}, device_);
      all_reduce(one);
      total += one.item<double>();
    }
    return total;
  }

  std::unique_ptr<JoinHook> join_hook(const JoinArguments& arguments) override {
    return std::make_unique<AllReducerHook>(*this, arguments.get("num_allreduces", int64_t{1}),
                                            arguments.get("run_post_hooks", false));
  }
  c10::Device join_device() const override { return device_; }
  Group join_process_group() const override { return {}; }

  at::Tensor post_hook_tensor;

 private:
  class AllReducerHook : public JoinHook {
   public:
    AllReducerHook(AllReducer& its, int64_t all_reduces, bool runs_at_the_end)
        : its_(its), all_reduces_(all_reduces), runs_at_the_end_(runs_at_the_end) {}

    void main_hook() override {
      for (int64_t i = 0; i < all_reduces_; ++i) all_reduce(at::zeros({1}, its_.device_));
    }

    // The highest rank among the last joiners sends to the others.
    void post_hook(bool is_last_joiner) override {
      if (!runs_at_the_end_) return;
      const at::Tensor source = at::full({1}, is_last_joiner ? get_rank() : -1,
                                         at::TensorOptions(at::kLong).device(its_.device_));
      all_reduce(source, ReduceOp::MAX);
      if (source.item<int>() == get_rank()) its_.post_hook_tensor.fill_(kAfter);
      broadcast(its_.post_hook_tensor, source.item<int>());
    }

   private:
    AllReducer& its_;
    int64_t all_reduces_;
    bool runs_at_the_end_;
  };

  c10::Device device_;
};

struct JoinCase {
  bool uneven = true;
  int joinables = 1;
  int64_t all_reduces = 1;
  bool post_hooks = false;
  bool enable = true;
  bool throws = false;
};

// Rank i has 3 + i inputs.
class TestJoin : public DefaultGroupTest {
 protected:
  static constexpr int kInputs = 3;

  static double expected_total(const JoinCase& now) {
    int total = world_size() * kInputs;
    for (int joined = 1; now.uneven && joined <= rank(); ++joined) total += world_size() - joined;
    return static_cast<double>(total * now.joinables * now.all_reduces);
  }

  static void run(const JoinCase& now, c10::Device device) {
    std::vector<AllReducer> reducers(static_cast<std::size_t>(now.joinables), AllReducer(device));
    Join join(
        {reducers.begin(), reducers.end()},
        {.enable = now.enable,
         .throw_on_early_termination = now.throws,
         .arguments = {{"num_allreduces", now.all_reduces}, {"run_post_hooks", now.post_hooks}}});
    double total = 0;
    const auto body = [&] {
      for (int i = 0; i < kInputs + (now.uneven ? rank() : 0); ++i) {
        for (AllReducer& one : reducers) total += one(now.all_reduces);
      }
    };
    if (now.throws) {
      EXPECT_THROWS_WITH(join.run(body), UnevenInputsError,
                         rank() == 0 ? "Rank 0 exhausted all inputs."
                                     : "Detected at least one rank that exhausted inputs. "
                                       "Throwing across all ranks.");
      return;
    }
    join.run(body);
    EXPECT_EQ(total, expected_total(now));
    for (const AllReducer& one : reducers) {
      EXPECT_EQ(one.post_hook_tensor.item<int64_t>(), now.post_hooks ? kAfter : kBefore);
    }
  }
};

#define JOIN_TEST(name, ...)                                                    \
  DISTRIBUTED_TEST(join, TestJoin, name,                                        \
                   {.ranks = 2, .ranks_max = 8, .backends = {"gloo", "shm"}}) { \
    run(__VA_ARGS__, cpu());                                                    \
  }                                                                             \
  DISTRIBUTED_TEST(join, TestJoin, name##_nccl,                                 \
                   {.ranks = 2, .min_gpus = 2, .backends = {"nccl"}}) {         \
    run(__VA_ARGS__, gpu());                                                    \
  }

JOIN_TEST(test_single_joinable_main_hooks, JoinCase{})
// PyTorch's original of the next test never runs a post hook; this one does.
JOIN_TEST(test_single_joinable_post_hooks, JoinCase{.all_reduces = 0})
JOIN_TEST(test_single_joinable, JoinCase{.post_hooks = true})
JOIN_TEST(test_multiple_joinables, JoinCase{.joinables = 3, .post_hooks = true})
JOIN_TEST(test_single_joinable_disable, JoinCase{.uneven = false, .enable = false})
JOIN_TEST(test_multiple_joinable_disable,
          JoinCase{.uneven = false, .joinables = 3, .enable = false})
JOIN_TEST(test_single_joinable_throw, JoinCase{.throws = true})
JOIN_TEST(test_multiple_joinables_throw, JoinCase{.joinables = 3, .throws = true})
JOIN_TEST(test_join_kwargs, JoinCase{.all_reduces = 2})
JOIN_TEST(test_single_joinable_post_hooks_that_run, JoinCase{.all_reduces = 0, .post_hooks = true})

}  // namespace
}  // namespace distrun
