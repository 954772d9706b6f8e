#include "testsuites/mutation/mutation.h"

#include <cstdlib>
#include <future>

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/gloo/gloo.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Group = c10d::Backend;
using TensorList = std::vector<at::Tensor>;

constexpr auto kTimeout = std::chrono::seconds(30);

at::Tensor tensor(double value) { return at::full({1}, value, at::kDouble); }

// The results of `act` on two ranks, each a thread with a group.
template <class Act>
std::vector<double> on_two_ranks(Mutation mutation, const Act& act) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::future<double>> results;
  for (int rank : {0, 1}) {
    results.push_back(std::async(std::launch::async, [&, rank] {
      const auto group =
          mutated(make_gloo_backend({.store = store, .rank = rank, .size = 2, .timeout = kTimeout}),
                  mutation);
      return static_cast<double>(act(*group));
    }));
  }
  return {results[0].get(), results[1].get()};
}

// Rank 0 starts with 2, rank 1 with 4.
double input_of(Group& group) { return group.getRank() == 0 ? 2 : 4; }

double broadcast_from_0(Group& group) {
  TensorList x = {tensor(input_of(group))};
  group.broadcast(x, {.rootRank = 0})->wait();
  return x[0].item<double>();
}

double allreduce(Group& group, c10d::ReduceOp op = c10d::ReduceOp::SUM) {
  TensorList x = {tensor(input_of(group))};
  group.allreduce(x, {.reduceOp = op})->wait();
  return x[0].item<double>();
}

double reduce_to_0(Group& group, c10d::ReduceOp op = c10d::ReduceOp::SUM) {
  TensorList x = {tensor(input_of(group))};
  group.reduce(x, {.reduceOp = op, .rootRank = 0})->wait();
  return x[0].item<double>();
}

// The second tensor in the root's list.
double gather_at_0(Group& group) {
  TensorList x = {tensor(input_of(group))};
  std::vector<TensorList> out;
  if (group.getRank() == 0) out = {{tensor(-1), tensor(-1)}};
  group.gather(out, x, {.rootRank = 0})->wait();
  return out.empty() ? 0 : out[0][1].item<double>();
}

double scatter_from_0(Group& group) {
  TensorList x = {tensor(-1)};
  std::vector<TensorList> in;
  if (group.getRank() == 0) in = {{tensor(5), tensor(6)}};
  group.scatter(x, in, {.rootRank = 0})->wait();
  return x[0].item<double>();
}

double reduce_scatter(Group& group, c10d::ReduceOp op) {
  auto out = tensor(-1);
  auto in = at::full({2}, input_of(group), at::kDouble);
  group._reduce_scatter_base(out, in, {.reduceOp = op})->wait();
  return out.item<double>();
}

double allgather(Group& group) {
  TensorList x = {tensor(input_of(group))};
  std::vector<TensorList> out = {{tensor(-1), tensor(-1)}};
  group.allgather(out, x)->wait();
  return out[0][1].item<double>();
}

double send_to_the_other(Group& group) {
  const int other = 1 - group.getRank();
  TensorList in = {tensor(input_of(group))}, out = {tensor(-1)};
  const auto sent = group.send(in, other, 0);
  group.recv(out, other, 0)->wait();
  sent->wait();
  return out[0].item<double>();
}

TEST(MutationTest, WrongRootBroadcastsTheNextRanksData) {
  EXPECT_THAT(on_two_ranks(Mutation::kStaleOutput, broadcast_from_0), ElementsAre(2, 4));
  EXPECT_THAT(on_two_ranks(Mutation::kWrongRoot, broadcast_from_0), ElementsAre(4, 4));
}

TEST(MutationTest, WrongRootReducesToTheNextRank) {
  const auto reduce = [](Group& group) { return reduce_to_0(group); };
  EXPECT_EQ(on_two_ranks(Mutation::kMissingDivision, reduce).front(), 6);
  EXPECT_THAT(on_two_ranks(Mutation::kWrongRoot, reduce), ElementsAre(2, 6));
}

TEST(MutationTest, WrongRootGathersNothing) {
  EXPECT_THAT(on_two_ranks(Mutation::kMissingDivision, gather_at_0), ElementsAre(4, 0));
  EXPECT_THAT(on_two_ranks(Mutation::kWrongRoot, gather_at_0), ElementsAre(-1, 0));
}

TEST(MutationTest, WrongRootScattersZeros) {
  EXPECT_THAT(on_two_ranks(Mutation::kMissingDivision, scatter_from_0), ElementsAre(5, 6));
  EXPECT_THAT(on_two_ranks(Mutation::kWrongRoot, scatter_from_0), ElementsAre(0, 0));
}

TEST(MutationTest, AnInvalidRootIsStillRejected) {
  on_two_ranks(Mutation::kWrongRoot, [](Group& group) {
    TensorList x = {tensor(1)};
    try {
      group.broadcast(x, {.rootRank = 2});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("invalid root rank: 2"));
    }
    return 0;
  });
}

TEST(MutationTest, WithADroppedWaitNoDataArrives) {
  const auto dropped = [](const auto& act) { return on_two_ranks(Mutation::kDroppedWait, act); };
  EXPECT_THAT(dropped([](Group& group) { return allreduce(group); }), ElementsAre(2, 4));
  EXPECT_THAT(dropped(allgather), ElementsAre(-1, -1));
  EXPECT_THAT(dropped(send_to_the_other), ElementsAre(-1, -1));
}

TEST(MutationTest, ADroppedWaitDoesNotWaitForTheOtherRank) {
  std::promise<void> rank_0_is_through;
  on_two_ranks(Mutation::kDroppedWait, [&](Group& group) {
    if (group.getRank() == 1) {
      const auto came = rank_0_is_through.get_future().wait_for(kTimeout);
      EXPECT_EQ(came, std::future_status::ready);
      group.barrier()->wait();
      return 0;
    }
    const auto work = group.barrier();
    EXPECT_TRUE(work->isCompleted());
    EXPECT_TRUE(work->wait());
    EXPECT_TRUE(work->getFuture()->completed());
    rank_0_is_through.set_value();
    return 0;
  });
}

TEST(MutationTest, MissingDivisionTurnsAnAverageIntoASum) {
  const auto average = [](Mutation mutation, const auto& act) {
    return on_two_ranks(mutation, [&](Group& group) { return act(group, c10d::ReduceOp::AVG); });
  };
  EXPECT_THAT(average(Mutation::kWrongRoot, allreduce), ElementsAre(3, 3));
  EXPECT_THAT(average(Mutation::kMissingDivision, allreduce), ElementsAre(6, 6));
  EXPECT_THAT(average(Mutation::kMissingDivision, reduce_to_0).front(), 6);
  EXPECT_THAT(average(Mutation::kMissingDivision, reduce_scatter), ElementsAre(6, 6));
}

TEST(MutationTest, OnlyRankOneHasStaleOutput) {
  const auto stale = [](const auto& act) { return on_two_ranks(Mutation::kStaleOutput, act); };
  EXPECT_THAT(stale([](Group& group) { return allreduce(group); }), ElementsAre(6, 4));
  EXPECT_THAT(stale(allgather), ElementsAre(4, -1));
  EXPECT_THAT(stale(scatter_from_0), ElementsAre(5, -1));
  EXPECT_THAT(stale(send_to_the_other), ElementsAre(4, -1));
}

TEST(MutationTest, ResultAndFutureAreStaleToo) {
  const auto results = on_two_ranks(Mutation::kStaleOutput, [](Group& group) {
    TensorList x = {tensor(input_of(group))};
    const auto work = group.allreduce(x);
    work->wait();
    const auto future = work->getFuture();
    future->waitAndThrow();
    const double told = future->value().toTensorVector().at(0).item<double>();
    EXPECT_EQ(work->result().at(0).item<double>(), told);
    return told;
  });
  EXPECT_THAT(results, ElementsAre(6, 4));
}

TEST(MutationTest, ReplacesEveryReduceOp) {
  const auto wrong = [](c10d::ReduceOp op) {
    return on_two_ranks(Mutation::kWrongReduceOp,
                        [&](Group& group) { return allreduce(group, op); })
        .front();
  };
  EXPECT_EQ(wrong(c10d::ReduceOp::SUM), 8);
  EXPECT_EQ(wrong(c10d::ReduceOp::PRODUCT), 6);
  EXPECT_EQ(wrong(c10d::ReduceOp::MIN), 4);
  EXPECT_EQ(wrong(c10d::ReduceOp::MAX), 2);
  EXPECT_EQ(wrong(c10d::ReduceOp::AVG), 4);
}

TEST(MutationTest, ReplacesEveryBitwiseReduceOp) {
  const auto wrong = [](c10d::ReduceOp op) {
    return on_two_ranks(Mutation::kWrongReduceOp,
                        [&](Group& group) {
                          TensorList x = {at::full({1}, group.getRank() == 0 ? 6 : 3, at::kLong)};
                          group.allreduce(x, {.reduceOp = op})->wait();
                          return x[0].item<double>();
                        })
        .front();
  };
  EXPECT_EQ(wrong(c10d::ReduceOp::BAND), 6 | 3);
  EXPECT_EQ(wrong(c10d::ReduceOp::BOR), 6 ^ 3);
  EXPECT_EQ(wrong(c10d::ReduceOp::BXOR), 6 & 3);
}

TEST(MutationTest, LeavesSumsOfSparseTensorsAlone) {
  const auto results = on_two_ranks(Mutation::kWrongReduceOp, [](Group& group) {
    TensorList x = {tensor(input_of(group)).to_sparse()};
    const auto work = group.allreduce(x);
    work->wait();
    return work->result().at(0).to_dense().item<double>();
  });
  EXPECT_THAT(results, ElementsAre(6, 6));
}

// The effect of DISTRUN_MUTATION on a group of one, or the error's text.
std::string chosen_by(const char* name) {
  const auto group =
      make_gloo_backend({.store = c10::make_intrusive<c10d::HashStore>(), .timeout = kTimeout});
  ::setenv(kMutationVariable, name, 1);
  std::string said;
  try {
    said = mutated(group) == group ? "itself" : "another";
  } catch (const std::exception& error) {
    said = error.what();
  }
  ::unsetenv(kMutationVariable);
  return said;
}

TEST(MutationTest, TheVariableSelectsTheMutation) {
  EXPECT_EQ(chosen_by("wrong_root"), "another");
  EXPECT_EQ(chosen_by(""), "itself");
  EXPECT_THAT(chosen_by("wrong_roof"), HasSubstr("no mutation is called 'wrong_roof'"));
}

TEST(MutationTest, WithoutTheVariableReturnsTheGroupItself) {
  ASSERT_EQ(std::getenv(kMutationVariable), nullptr);
  const auto group =
      make_gloo_backend({.store = c10::make_intrusive<c10d::HashStore>(), .timeout = kTimeout});
  EXPECT_EQ(mutated(group), group);
}

}  // namespace
}  // namespace distrun
