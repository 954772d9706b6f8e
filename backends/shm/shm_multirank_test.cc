// The backend shm with peers: errors, shared tensors and futures.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include <unistd.h>

#include "backends/group/run_directly.h"
#include "backends/group/shared_tensors.h"
#include "backends/shm/test/mapped_files.h"
#include "backends/test/multirank_test.h"
#include "distrun/collectives.h"

namespace distrun::shm {
namespace {

using ::testing::HasSubstr;

class ShmMultirankTest : public MultirankTest {
 protected:
  void SetUp() override {
    MultirankTest::SetUp();
    if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
    group_ = new_group(std::nullopt, {.backend = "shm"});
  }

  Group group_;
};

TEST_F(ShmMultirankTest, RejectsReductionsBeforeAnythingIsSent) {
  c10d::ReduceOp scaled_sum;
  scaled_sum.op_ = c10d::ReduceOp::PREMUL_SUM;
  const at::Tensor x = at::ones({2});
  EXPECT_THAT(error_of([&] { all_reduce(x, scaled_sum, {.group = group_}); }),
              HasSubstr("shm has no PREMUL_SUM; expected SUM or AVG"));
  EXPECT_THAT(error_of([&] { all_reduce(x, c10d::ReduceOp::BAND, {.group = group_}); }),
              HasSubstr("shm has no BAND of Float"));
  all_reduce(x, c10d::ReduceOp::SUM, {.group = group_});
  EXPECT_TRUE(x.equal(at::full({2}, static_cast<float>(get_world_size()))));
}

// Values whose sum depends on the order, as in (1e8 + 1) - 1e8.
at::Tensor values_of(int rank, std::int64_t count) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank));
  const at::Tensor exponents = at::randint(-6, 7, {count}, generator, at::kFloat);
  return at::randn({count}, generator, at::kFloat) * at::pow(10, exponents);
}

at::Tensor sum_in_the_order_of_ranks(std::int64_t count) {
  at::Tensor sum = values_of(0, count);
  for (int rank = 1; rank < get_world_size(); ++rank) sum = sum + values_of(rank, count);
  return sum;
}

// Small tensors are reduced by each rank, and large ones in parts.
TEST_F(ShmMultirankTest, SumsAreInTheOrderOfTheRanks) {
  for (const std::int64_t per_rank : {1, 4, 1000, 100'000}) {
    SCOPED_TRACE(per_rank);
    const std::int64_t count = per_rank * get_world_size();
    const at::Tensor expected = sum_in_the_order_of_ranks(count);
    const at::Tensor all = values_of(get_rank(), count), mine = at::empty({per_rank});
    reduce_scatter_tensor(mine, all, c10d::ReduceOp::SUM, {.group = group_});
    EXPECT_TRUE(mine.equal(expected.narrow(0, get_rank() * per_rank, per_rank)));
    const at::Tensor on_root = all.clone();
    reduce(on_root, 1, c10d::ReduceOp::SUM, {.group = group_});
    EXPECT_TRUE(get_rank() != 1 || on_root.equal(expected));
    all_reduce(all, c10d::ReduceOp::SUM, {.group = group_});
    EXPECT_TRUE(all.equal(expected));
  }
}

// Whether the sum of the tensor is computed without c10d. If not, nothing has been done.
bool sums_directly(const Group& group, const at::Tensor& tensor, bool async_op = false) {
  const internal::CallSite site{"all_reduce", group};
  return internal::ran_directly(
      site, async_op, {.output = &tensor},
      [&](internal::DirectCalls& its, const internal::DirectCalls::Begin& begin) {
        return its.all_reduce_now(tensor, ReduceOp::SUM, begin);
      });
}

TEST_F(ShmMultirankTest, PlainCallsDoWithoutC10d) {
  if (c10d::debug_level() == c10d::DebugLevel::Detail) GTEST_SKIP() << "compares calls";
  const at::Tensor x = at::ones({2});
  const auto version = x._version();
  ASSERT_TRUE(sums_directly(group_, x));
  EXPECT_TRUE(x.eq(get_world_size()).all().item<bool>());
  EXPECT_EQ(x._version(), version + 1);
  const c10::InferenceMode inference;
  const at::Tensor of_inference = at::ones({2});
  ASSERT_TRUE(sums_directly(group_, of_inference));
  EXPECT_TRUE(of_inference.eq(get_world_size()).all().item<bool>());
}

TEST_F(ShmMultirankTest, ACallDoesNotOvertakeOneThatWaits) {
  const at::Tensor x = at::ones({2}), y = at::ones({2});
  Work before;
  if (get_rank() == 0) {
    before = all_reduce(x, ReduceOp::SUM, {.group = group_, .async_op = true});
    EXPECT_FALSE(sums_directly(group_, y));
  }
  rendezvous_at("waits");
  if (get_rank() != 0) all_reduce(x, ReduceOp::SUM, {.group = group_});
  all_reduce(y, ReduceOp::MAX, {.group = group_});
  before.wait();
  EXPECT_TRUE(x.eq(get_world_size()).all().item<bool>());
  EXPECT_TRUE(y.eq(1).all().item<bool>());
}

TEST_F(ShmMultirankTest, OtherCallsNeedC10d) {
  if (c10d::debug_level() == c10d::DebugLevel::Detail) GTEST_SKIP() << "all need it";
  const at::Tensor x = at::ones({2});
  const auto version = x._version();
  EXPECT_FALSE(sums_directly(group_, x, /*async_op=*/true));
  EXPECT_FALSE(sums_directly(group_, at::Tensor()));
  EXPECT_FALSE(sums_directly(group_, at::ones({2, 3}).t()));
  EXPECT_FALSE(sums_directly(group_, at::ones({2}, at::kComplexFloat)));
  EXPECT_FALSE(sums_directly(group_, at::ones({2}).to_sparse()));
  EXPECT_FALSE(sums_directly(group_, at::ones({2}).requires_grad_()));
  EXPECT_FALSE(sums_directly(group_, at::ones({2}, at::kFloat8_e5m2)));  // An error.
  {
    const c10::impl::IncludeDispatchKeyGuard mode(c10::DispatchKey::Fake);  // As of a trace.
    EXPECT_FALSE(sums_directly(group_, x));
  }
  EXPECT_FALSE(sums_directly(new_group(std::nullopt, {.backend = "gloo"}), x));
  EXPECT_TRUE(x.equal(at::ones({2})));
  EXPECT_EQ(x._version(), version);
}

TEST_F(ShmMultirankTest, AProfilerSeesEveryCall) {
  static thread_local std::vector<std::string> seen;
  seen.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function)
                                     -> std::unique_ptr<at::ObserverContext> {
        seen.emplace_back(function.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  const at::Tensor x = at::ones({2});
  all_reduce(x, ReduceOp::SUM, {.group = group_});
  barrier({.group = group_});
  at::removeCallback(handle);
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"c10d::allreduce_", "c10d::barrier"}));
}

// The kernel or a user may forbid it on some ranks.
TEST_F(ShmMultirankTest, RanksThatCannotReadTheMemoryOfPeersAgreeOnAnotherWay) {
  const std::int64_t ranks = get_world_size(), rank = get_rank();
  for (const char* const setting_of_rank_1 : {"1", "0", ""}) {  // Always, never, if it is faster.
    SCOPED_TRACE(setting_of_rank_1);
    ::setenv("DISTRUN_SHM_READ_PEERS", rank == 1 ? setting_of_rank_1 : "1", 1);
    const Group group = new_group(std::nullopt, {.backend = "shm"});
    ::unsetenv("DISTRUN_SHM_READ_PEERS");
    const at::Tensor mine = at::full({100'000}, rank), all = at::empty({ranks, 100'000}, at::kLong);
    all_gather_into_tensor(all, mine, {.group = group});
    const at::Tensor expected = at::arange(ranks).unsqueeze(1).expand({ranks, 100'000});
    EXPECT_TRUE(all.equal(expected));
    const at::Tensor sent = expected + 10 * rank, received = at::empty_like(all);
    all_to_all_single(received, sent.contiguous(), {}, {}, {.group = group});
    EXPECT_TRUE(received.equal(10 * expected + rank));
  }
}

TEST_F(ShmMultirankTest, AForkedChildThatEndsDoesNotEndTheGroup) {
  const at::Tensor x = at::ones({1});
  all_reduce(x, c10d::ReduceOp::SUM, {.group = group_, .async_op = true}).wait();
  const pid_t child = ::fork();
  if (child == 0) {
    group_ = Group();  // Frees the child's copy.
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  barrier({.group = group_});
}

TEST_F(ShmMultirankTest, SparseTensorsOfDifferentSizesAreAnErrorOnAllRanks) {
  const at::Tensor x = at::ones({get_rank() == 0 ? 3 : 4}).to_sparse();
  EXPECT_THAT(error_of([&] { all_reduce(x, c10d::ReduceOp::SUM, {.group = group_}); }),
              HasSubstr("all_reduce: the ranks' sparse tensors differ in sizes, dtype or number of "
                        "dense dimensions"));
}

// A bucket of DDP, whose gradients are views of it.
TEST_F(ShmMultirankTest, ASharedTensorIsReducedInPlaceAndKeepsItsViews) {
  const int ranks = get_world_size();
  const at::Tensor all = at::full({1'000'000}, get_rank() + 1, at::kFloat);
  const at::Tensor view = all.narrow(0, 500, 1000).view({10, 100});
  internal::share_with_group(all, *group_.process_group());
  EXPECT_EQ(test::mapped_file(all.const_data_ptr()), "/memfd:distrun shm (deleted)");
  EXPECT_TRUE(view.eq(get_rank() + 1).all().item<bool>());
  const std::size_t before = test::mappings_of("/memfd:distrun shm (deleted)");
  all_reduce(all, ReduceOp::SUM, {.group = group_});
  EXPECT_EQ(test::mappings_of("/memfd:distrun shm (deleted)") - before, ranks - 1);
  EXPECT_TRUE(all.eq(ranks * (ranks + 1) / 2).all().item<bool>());
  EXPECT_EQ(view.data_ptr<float>(), all.data_ptr<float>() + 500);
  // A group with another backend, or with other memory, has no use for it but works.
  all_reduce(view, ReduceOp::MAX);
  all_reduce(view, ReduceOp::MAX, {.group = group_});
  EXPECT_TRUE(view.eq(ranks * (ranks + 1) / 2).all().item<bool>());
}

TEST_F(ShmMultirankTest, WithoutRoomATensorStaysWhereItIs) {
  struct LastWarning : c10::WarningHandler {
    void process(const c10::Warning& warning) override { text = warning.msg(); }
    std::string text;
  } last;
  const at::Tensor all = at::ones({1'000'000});
  const void* const place = all.const_data_ptr();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  {
    const c10::WarningUtils::WarningHandlerGuard guard(&last);
    internal::share_with_group(all, *group_.process_group());
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(last.text,
            "a reduction will not be in place: share 4000000 bytes of tensors: "
            "fallocate: file too large: raise `ulimit -f`");
  EXPECT_EQ(all.const_data_ptr(), place);
  all_reduce(all, ReduceOp::SUM, {.group = group_});
  EXPECT_TRUE(all.eq(get_world_size()).all().item<bool>());
}

TEST_F(ShmMultirankTest, ASharedTensorOutlivesItsGroup) {
  const at::Tensor all = at::ones({1'000'000});
  internal::share_with_group(all, *group_.process_group());
  destroy_process_group(std::exchange(group_, Group()));
  EXPECT_EQ(all.sum().item<float>(), 1'000'000);
}

TEST_F(ShmMultirankTest, OnlyLargeTensorsThatUseTheirWholeStorageMove) {
  const at::Tensor all = at::ones({1'000'000});
  for (const at::Tensor& one : {all.narrow(0, 1, 999'999), all.narrow(0, 0, 999'999), at::ones({0}),
                                at::ones({1000}), at::ones({3}).to_sparse(), at::Tensor()}) {
    const void* const before =
        one.defined() && one.layout() == at::kStrided ? one.const_data_ptr() : nullptr;
    internal::share_with_group(one, *group_.process_group());
    if (before != nullptr) {
      EXPECT_EQ(one.const_data_ptr(), before);
    }
  }
}

// A bucket's reduction has a callback that divides.
TEST_F(ShmMultirankTest, TheFutureIsCompleteWhenWaitReturns) {
  for (int time = 0; time < 300; ++time) {
    const at::Tensor one = at::ones({2});
    const Work work = all_reduce(one, ReduceOp::SUM, {.group = group_, .async_op = true});
    const auto future = work.get_future();
    std::atomic<bool> has_run = false;
    future->addCallback([&](c10::ivalue::Future&) {
      work.wait();  // Returns, although the callback has not.
      EXPECT_TRUE(work.is_completed());
      std::this_thread::yield();
      has_run = true;
    });
    work.wait();
    ASSERT_TRUE(future->completed());
    ASSERT_TRUE(has_run);
  }
}

TEST_F(ShmMultirankTest, AMonitoredBarrierNamesAllMissingRanks) {
  if (get_rank() == 0) {
    const std::string missing = get_world_size() == 2 ? "1" : "1, 2";
    EXPECT_THAT(error_of([&] {
                  monitored_barrier({.group = group_, .timeout = std::chrono::milliseconds(200)});
                }),
                HasSubstr("Ranks " + missing + " failed to pass monitoredBarrier in 200 ms"));
  }
  rendezvous_at("failed");
}

}  // namespace
}  // namespace distrun::shm
