#include "backends/group/run_directly.h"

#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/ops/ones.h>
#include <c10/util/StringUtil.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "common/operations/operation_pages.h"
#include "common/operations/operation_writer.h"
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
  void TearDown() override {
    if (is_initialized()) destroy_process_group();
  }
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

// The calls as distrun reads them: "reduce_scatter_tensor Float [2] in 0, number 1".
class DirectRecordTest : public RunDirectlyTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(made_) << made_.error().message;
    if (::testing::UnitTest::GetInstance()->test_to_run_count() != 1) {
      GTEST_SKIP()
          << "a process records to the address that its first group finds: run this test alone";
    }
    ::setenv(kOperationsVariable, OperationPages::address(pages_.file(), 0).c_str(), 1);
    RunDirectlyTest::SetUp();
    ::unsetenv(kOperationsVariable);
  }
  std::vector<std::string> recorded() const {
    std::vector<std::string> all;
    for (const Operation& each : pages_.read_after(0, 0)) {
      all.push_back(c10::str(each.op, each.dtype.empty() ? "" : " ", each.dtype, each.sizes, " in ",
                             each.group.substr(0, each.group.find('@')), ", number ",
                             each.sequence));
    }
    return all;
  }

  Result<OperationPages> made_ = OperationPages::make(1);
  OperationPages& pages_ = *made_;
};

TEST_F(DirectRecordTest, DescribesEachCallThoughTheLastOneWasSimilar) {
  const at::Tensor x = at::ones({2}), y = at::ones({2}), longs = at::ones({2}, at::kLong);
  const Group second = new_group();
  all_gather_into_tensor(y, x);
  reduce_scatter_tensor(y, x);                                            // Another function,
  reduce_scatter_tensor(longs, longs);                                    // another dtype,
  reduce_scatter_tensor(longs, longs, ReduceOp::SUM, {.group = second});  // another group,
  reduce_scatter_tensor(longs, longs, ReduceOp::SUM, {.group = second});  // the same,
  reduce_scatter_tensor(at::ones({3}), at::ones({3}));                    // and other sizes.
  barrier();
  destroy_process_group();
  RunDirectlyTest::SetUp();  // Its groups have the same names, and are not counted with those.
  barrier();
  EXPECT_THAT(recorded(),
              ::testing::ElementsAre("all_gather_into_tensor Float[2] in 0, number 1",
                                     "reduce_scatter_tensor Float[2] in 0, number 2",
                                     "reduce_scatter_tensor Long[2] in 0, number 3",
                                     "reduce_scatter_tensor Long[2] in 1, number 1",
                                     "reduce_scatter_tensor Long[2] in 1, number 2",
                                     "reduce_scatter_tensor Float[3] in 0, number 4",
                                     "barrier in 0, number 5", "barrier in 0, number 1"));
}

}  // namespace
}  // namespace distrun
