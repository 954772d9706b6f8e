// What collectives reject, and how they fail: missing ranks, timeouts, aborts.
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/group/test/collectives_fixture.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CollectiveErrorsMultirankTest : public CollectivesFixture {};

TEST_F(CollectiveErrorsMultirankTest, SingleTensorFormsCheckOnlyTheNumberOfElements) {
  const int ranks = get_world_size();
  const at::Tensor stacked = at::zeros({ranks, 2, 3});
  all_gather_into_tensor(stacked, input());
  EXPECT_TRUE(stacked.equal(at::stack(inputs()))) << stacked;
  const at::Tensor part = at::zeros({2, 3});
  reduce_scatter_tensor(part, stacked);
  EXPECT_TRUE(part.equal(input() * ranks)) << part;
  const at::Tensor number = at::zeros({});
  reduce_scatter_tensor(number, at::ones({ranks}));
  EXPECT_EQ(number.item<double>(), ranks);
}

TEST_F(CollectiveErrorsMultirankTest, GatherSingleRejectsUndefinedAndWrongSizedTensors) {
  if (get_rank() != 0) return;
  EXPECT_THAT(error_of([] { gather_single(input()); }),
              HasSubstr("gather_single on rank 0: gather_tensor is an undefined tensor"));
  EXPECT_THAT(error_of([] { gather_single(input(), at::zeros({5})); }),
              AllOf(HasSubstr("gather_tensor has 5 elements"), HasSubstr("as many as tensor")));
}

TEST_F(CollectiveErrorsMultirankTest, RejectsCompressedSparseTensors) {
  const at::Tensor compressed = at::ones({2, 2}).to_sparse_csr();
  EXPECT_THAT(error_of([&] { all_reduce(compressed); }),
              HasSubstr("tensor is SparseCsr; expected a dense tensor (to_dense()) or a sparse one "
                        "in COO format (to_sparse())"));
}

TEST_F(CollectiveErrorsMultirankTest, BackwardRejectsAnOverwrittenSavedTensor) {
  const at::Tensor weight = at::ones({2}).set_requires_grad(true);
  const auto backward_after = [&](const std::function<void(const at::Tensor&)>& collective) {
    const at::Tensor hidden = weight * 2;
    const at::Tensor loss = (hidden * hidden).sum();
    collective(hidden.detach());
    return MultirankTest::error_of([&] { loss.backward(); });
  };
  EXPECT_THAT(backward_after([](const at::Tensor& hidden) { all_reduce(hidden); }),
              HasSubstr("modified by an inplace operation"));
  // The root's tensor does not change.
  const auto broadcast_of = [](const at::Tensor& hidden) {
    broadcast(get_rank() == 0 ? hidden : hidden.clone(), 0);
  };
  EXPECT_EQ(backward_after(broadcast_of), "no error");
}

TEST_F(CollectiveErrorsMultirankTest, CollectivesFailAfterAnAbort) {
  const Group group = new_group();
  barrier({.group = group});
  abort_process_group(group);
  try {
    all_reduce(input(), ReduceOp::SUM, {.group = group});
    ADD_FAILURE() << "no error";
  } catch (const c10::DistBackendError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("the group has been aborted"));
  }
  barrier();
}

TEST_F(CollectiveErrorsMultirankTest, RejectsInvalidArgumentsWithBothValues) {
  const std::string here = " on rank " + std::to_string(get_rank()) + ": ";
  const int ranks = get_world_size();
  const at::Tensor x = input();
  Tensors more = empties();
  more.push_back(x);
  EXPECT_EQ(error_of([&] { all_gather(more, x); }),
            "all_gather" + here + "tensors has " + std::to_string(ranks + 1) +
                " tensors; expected " + std::to_string(ranks) +
                ", one for each rank of the default group");
  EXPECT_THAT(error_of([&] { all_reduce(at::Tensor()); }),
              HasSubstr(here + "tensor is an undefined tensor"));
  EXPECT_THAT(error_of([&] { all_gather_into_tensor(at::zeros({1}), x); }),
              HasSubstr(here + "output has 1 elements ([1]); expected as many as input ([2, 3])"));
  EXPECT_THAT(error_of([&] { broadcast(x, ranks); }),
              HasSubstr("broadcast" + here + "rank " + std::to_string(ranks) + " is not in"));
  EXPECT_THAT(error_of([&] { reduce(x, GroupRank(-1)); }),
              HasSubstr("group rank -1 is not in the default group"));
  EXPECT_THAT(error_of([&] { gather(x, {}, get_rank()); }), HasSubstr("tensors has 0 tensors"));
  EXPECT_THAT(
      error_of([&] { all_to_all_single(x, x, {1}, {}); }),
      HasSubstr(ranks == 1 ? "the split sizes of output add up to 1; expected 2"
                           : "output has 1 split sizes; expected " + std::to_string(ranks)));
  EXPECT_THAT(error_of([&] { all_to_all_single(at::zeros({}), x); }), HasSubstr("is a scalar"));
  EXPECT_THAT(error_of([&] {
                all_to_all_single(
                    x, x, std::vector<std::int64_t>(static_cast<std::size_t>(ranks), -1), {});
              }),
              HasSubstr("the split sizes of output have -1; expected 0 or more"));
  if (ranks == 3) {  // With an overflow the sum would be 2.
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    EXPECT_THAT(error_of([&] {
                  all_to_all_single(x, x, {kMost, kMost, 4}, {});
                }),
                HasSubstr("the split sizes of output add up to 2^63 or more; expected 2"));
  }
  EXPECT_THAT(
      error_of([&] { all_to_all_single(at::zeros({ranks}), at::zeros({2 * ranks})); }),
      HasSubstr("the part for this rank itself has 1 elements in output ([" +
                std::to_string(ranks) + "]) and 2 in input ([" + std::to_string(2 * ranks) + "])"));
  EXPECT_THAT(error_of([&] {
                all_to_all(of_all_ranks([](int) { return at::zeros({3}); }),
                           of_all_ranks([](int) { return at::zeros({2}); }));
              }),
              HasSubstr("has 3 elements ([3]); expected as many as inputs["));
  EXPECT_THAT(error_of([&] {
                all_gather(of_all_ranks([](int) { return at::zeros({3, 2}); }), x);
              }),
              HasSubstr("tensors[0] has sizes [3, 2]; expected [2, 3], the sizes of tensor"));
  EXPECT_THAT(error_of([&] { all_reduce(x, ReduceOp::BAND); }), HasSubstr("no BAND of Float"));
  EXPECT_THAT(error_of([&] { all_reduce(x.to(at::kBool), ReduceOp::AVG); }),
              HasSubstr("no AVG of Bool"));
  ReduceOp scaled_sum;
  scaled_sum.op_ = ReduceOp::PREMUL_SUM;
  EXPECT_THAT(error_of([&] { all_reduce(x, scaled_sum); }), HasSubstr("no PREMUL_SUM"));
  EXPECT_THAT(error_of([&] { all_reduce(x.to_sparse(), ReduceOp::MAX); }),
              HasSubstr("no MAX of sparse tensors"));
  if (backend() == "gloo") {
    EXPECT_THAT(error_of([&] { all_reduce(x.to(at::kInt), ReduceOp::AVG); }),
                HasSubstr("no AVG of Int"));
    EXPECT_THAT(error_of([&] { reduce(x.to(at::kShort), 0); }),
                HasSubstr("tensor has dtype Short, which gloo does not reduce"));
  }
  EXPECT_THAT(error_of([&] { all_reduce_coalesced({}); }), HasSubstr("tensors is empty"));
  EXPECT_THAT(error_of([&] { send(x, get_rank()); }), HasSubstr("the peer is this rank itself"));
  EXPECT_THAT(error_of([] { batch_isend_irecv({}); }),
              HasSubstr("the list of operations is empty"));
  const Group alone = new_subgroups(1).own.value();
  EXPECT_THAT(error_of([&] { recv(x, std::nullopt, {.group = alone}); }),
              AllOf(HasSubstr(here + "group "), HasSubstr(" has no other rank to receive from")));
  EXPECT_THAT(error_of([] { monitored_barrier({.timeout = milliseconds(-1)}); }),
              HasSubstr("the timeout is -1 ms"));
  all_reduce(x);  // The ranks are still in step.
  EXPECT_TRUE(x.equal(sum())) << x;
}

// The last rank does not call it.
TEST_F(CollectiveErrorsMultirankTest, MonitoredBarrierNamesMissingRanks) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group();
  barrier({.group = group});
  if (!is_last()) {
    try {
      monitored_barrier({.group = group, .timeout = milliseconds(500), .wait_all_ranks = true});
      ADD_FAILURE() << "passed without the last rank";
    } catch (const c10::DistBackendError& error) {
      const std::string text = error.what_without_backtrace();
      EXPECT_THAT(text, HasSubstr("monitored_barrier on rank " + std::to_string(get_rank())));
      if (get_rank() == 0) {
        const std::string last = std::to_string(get_world_size() - 1);
        EXPECT_THAT(text, ContainsRegex("Ranks ([0-9]+, )*" + last + " failed"));
      }
    }
  }
  barrier();
}

// The other ranks wait for rank 0 with the group's timeout, not with the call's.
TEST_F(CollectiveErrorsMultirankTest, MonitoredBarrierWithoutRank0UsesTheGroupTimeout) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::seconds(2)});
  barrier({.group = group});
  if (get_rank() != 0) {
    EXPECT_THROW(monitored_barrier({.group = group, .timeout = std::chrono::hours(1)}),
                 c10::DistBackendError);
  }
  barrier();
}

// The last rank never calls all_reduce.
TEST_F(CollectiveErrorsMultirankTest, TimeoutErrorNamesTheFunction) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group();
  barrier({.group = group});
  set_timeout(milliseconds(300), group);
  bool names_last = false;
  if (!is_last()) {
    const std::string last = std::to_string(get_world_size() - 1);
    const std::string text = MultirankTest::error_of<c10::DistBackendError>(
        [&] { all_reduce(input(), ReduceOp::SUM, {.group = group}); });
    EXPECT_THAT(text, HasSubstr("all_reduce on rank " + std::to_string(get_rank()) + " in group "));
    const std::string where_to_look =
        backend() == "gloo" ? "; see monitored_barrier() and `distrun store status`" : "";
    names_last = text.find(": rank " + last + " did not come" + where_to_look) != text.npos ||
                 text.find("; rank " + last + " did not come" + where_to_look) != text.npos ||
                 text.find("Ranks " + last) != text.npos;  // DETAIL
    if (!names_last) {
      EXPECT_THAT(text, ContainsRegex(lost_peer()));
    }
  }
  // The first rank that fails has not lost a connection yet.
  const at::Tensor naming = at::full({}, names_last ? 1 : 0);
  all_reduce(naming);
  EXPECT_GT(naming.item<int>(), 0) << "no rank names the last one";
}

TEST_F(CollectiveErrorsMultirankTest, WaitOfZeroDoesNotWait) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::seconds(2)});
  barrier({.group = group});
  if (!is_last()) {
    EXPECT_THAT(MultirankTest::error_of<c10::DistBackendError>([&] {
                  all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true})
                      .wait(milliseconds(0));
                }),
                HasSubstr("all_reduce on rank " + std::to_string(get_rank()) + " in group "));
  }
  barrier();
}

// The last rank does not call all_reduce. With TORCH_DISTRIBUTED_DEBUG=DETAIL, the check before the
// collective waits for it.
TEST_F(CollectiveErrorsMultirankTest, AbortEndsAWaitInAnotherThread) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  if (!is_last()) {
    std::promise<void> begun;
    std::thread aborts([&] {
      begun.get_future().wait_for(std::chrono::seconds(30));
      abort_process_group(group);
    });
    const bool begins_at_once = c10d::debug_level() != c10d::DebugLevel::Detail;
    if (!begins_at_once) begun.set_value();
    try {
      const Work work = all_reduce(input(), ReduceOp::SUM, {.group = group, .async_op = true});
      if (begins_at_once) begun.set_value();
      work.wait();
      ADD_FAILURE() << "passed without the last rank";
    } catch (const c10::DistBackendError& error) {
      // Another rank may abort first and close its connections.
      EXPECT_THAT(error.what_without_backtrace(),
                  AnyOf(HasSubstr("the group has been aborted"), ContainsRegex(lost_peer())));
    }
    aborts.join();
  }
  barrier();
}

}  // namespace
}  // namespace distrun
