#include "backends/group/run_directly.h"

#include <string>
#include <vector>

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "distrun/backend_registry.h"
#include "distrun/collectives.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

using internal::DirectCalls;

// It has no other collectives: c10d's way throws.
class OnlyDirect : public c10d::Backend, public DirectCalls {
 public:
  using Backend::Backend;

  const std::string getBackendName() const override { return "only_direct"; }
  void shutdown() override {}

  bool barrier_now(Begin begin) override { return called("barrier", begin); }
  bool broadcast_now(const at::Tensor&, int, Begin begin) override {
    return called("broadcast", begin);
  }
  bool all_reduce_now(const at::Tensor&, const c10d::ReduceOp&, Begin begin) override {
    return called("all_reduce", begin);
  }
  bool all_gather_now(const at::Tensor&, const at::Tensor&, Begin begin) override {
    return called("all_gather", begin);
  }
  bool reduce_scatter_now(const at::Tensor&, const at::Tensor&, const c10d::ReduceOp&,
                          Begin begin) override {
    return called("reduce_scatter", begin);
  }
  bool all_to_all_now(const at::Tensor&, const at::Tensor&, Begin begin) override {
    return called("all_to_all", begin);
  }

  inline static std::vector<std::string> calls;

 private:
  static bool called(const char* name, Begin begin) {
    begin();
    calls.emplace_back(name);
    return true;
  }
};

class RunDirectlyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_backend_available("only_direct")) {
      const auto maker = [](const BackendRequest& request) {
        return c10::make_intrusive<OnlyDirect>(request.rank, request.size);
      };
      register_backend("only_direct", maker, {c10::kCPU});
    }
    OnlyDirect::calls.clear();
    init_process_group({.backend = "only_direct",
                        .rank = 0,
                        .world_size = 1,
                        .store = c10::make_intrusive<c10d::HashStore>()});
  }
  void TearDown() override { destroy_process_group(); }
};

TEST_F(RunDirectlyTest, SynchronousCollectivesDoWithoutC10d) {
  const at::Tensor x = at::ones({2}), y = at::ones({2});
  broadcast(x, 0);
  all_reduce(x);
  all_gather_into_tensor(y, x);
  reduce_scatter_tensor(y, x);
  all_to_all_single(y, x);
  barrier();
  EXPECT_THAT(OnlyDirect::calls, ::testing::ElementsAre("broadcast", "all_reduce", "all_gather",
                                                        "reduce_scatter", "all_to_all", "barrier"));
}

TEST_F(RunDirectlyTest, AsynchronousOnesAndThoseWithSplitSizesUseC10d) {
  const at::Tensor x = at::ones({2}), y = at::ones({2});
  EXPECT_ANY_THROW(all_reduce(x, ReduceOp::SUM, {.async_op = true}));
  EXPECT_ANY_THROW(all_to_all_single(y, x, {2}, {2}));
  EXPECT_THAT(OnlyDirect::calls, ::testing::IsEmpty());
}

}  // namespace
}  // namespace distrun
