// Autograd collectives, on every rank of a run. The loss of rank r is r + 1 times the sum of the
// squares of its outputs.
//
//     distrun launch --nproc-per-node 3 build/tests/parallel_multirank_test
//         --gtest_filter='FunctionalMultirankTest.*'
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "backends/test/multirank_test.h"
#include "distrun/functional.h"

namespace distrun {
namespace {

namespace F = functional;
using ::testing::HasSubstr;

class FunctionalMultirankTest : public MultirankTest {
 protected:
  static at::Tensor input() { return MultirankTest::input().requires_grad_(); }

  static double weight(int rank) { return rank + 1; }
  static double weight() { return weight(get_rank()); }
  static double sum_of_weights() { return at::arange(get_world_size() + 1).sum().item<double>(); }

  static at::Tensor loss(const at::Tensor& got) { return weight() * got.pow(2).sum(); }
  static at::Tensor loss(const Tensors& got) {
    at::Tensor sum = at::zeros({});
    for (const at::Tensor& one : got) sum = sum + loss(one);
    return sum;
  }

  static at::Tensor sum_of_inputs() { return at::stack(of_all_ranks(input_of)).sum(0); }
  static int last() { return get_world_size() - 1; }
  static bool is_last() { return get_rank() == last(); }

  static void expect_close(const at::Tensor& got, const at::Tensor& expected) {
    ASSERT_TRUE(got.defined());
    EXPECT_TRUE(got.allclose(expected)) << got << "\nexpected\n" << expected;
  }
};

TEST_F(FunctionalMultirankTest, AllReduceReducesTheGradients) {
  const at::Tensor x = input(), y = F::all_reduce(x);
  expect_close(y, sum_of_inputs());
  EXPECT_TRUE(x.equal(MultirankTest::input())) << "the input stays as it is";
  loss(y).backward();
  expect_close(x.grad(), 2 * sum_of_weights() * sum_of_inputs());
}

TEST_F(FunctionalMultirankTest, MeanReductionAveragesTheGradients) {
  const double ranks = get_world_size();
  const at::Tensor mean = sum_of_inputs() / ranks, gradient = 2 * sum_of_weights() / ranks * mean;
  const at::Tensor x = input();
  loss(F::all_reduce(x, ReduceOp::AVG)).backward();
  expect_close(x.grad(), gradient);

  const at::Tensor z = input(), to_last = F::reduce(z, last(), ReduceOp::AVG);
  loss(to_last).backward();
  expect_close(z.grad(), 2 * weight(last()) / ranks * mean);

  Tensors parts = of_all_ranks([](int) { return input(); });
  loss(F::reduce_scatter(parts, ReduceOp::AVG)).backward();
  for (int rank = 0; rank < get_world_size(); ++rank) {
    expect_close(parts[static_cast<std::size_t>(rank)].grad(), 2 * weight(rank) / ranks * mean);
  }
}

TEST_F(FunctionalMultirankTest, BroadcastSendsAllGradientsToTheSource) {
  for (int src = 0; src < get_world_size(); ++src) {
    const at::Tensor x = input(), y = F::broadcast(x, src);
    expect_close(y, input_of(src));
    loss(y).backward();
    const double factor = get_rank() == src ? 2 * sum_of_weights() : 0;
    expect_close(x.grad(), factor * input_of(src));
  }
}

TEST_F(FunctionalMultirankTest, ReduceTakesTheGradientOfTheDestination) {
  for (int dst = 0; dst < get_world_size(); ++dst) {
    const at::Tensor x = input(), y = F::reduce(x, dst);
    if (get_rank() == dst) expect_close(y, sum_of_inputs());
    loss(y).backward();
    expect_close(x.grad(), 2 * weight(dst) * sum_of_inputs());
  }
}

TEST_F(FunctionalMultirankTest, AllGatherAddsUpTheGradientsOfAllRanks) {
  const at::Tensor x = input();
  const Tensors y = F::all_gather(x);
  for (int rank = 0; rank < get_world_size(); ++rank) {
    expect_close(y[static_cast<std::size_t>(rank)], input_of(rank));
  }
  loss(y).backward();
  expect_close(x.grad(), 2 * sum_of_weights() * x.detach());
}

TEST_F(FunctionalMultirankTest, GatherTakesTheGradientsOfTheDestination) {
  const at::Tensor x = input();
  const Tensors y = F::gather(x, last());
  ASSERT_EQ(y.size(), static_cast<std::size_t>(get_world_size()));
  for (int rank = 0; rank < get_world_size(); ++rank) {
    expect_close(y[static_cast<std::size_t>(rank)], is_last() ? input_of(rank) : at::zeros({2, 3}));
  }
  loss(y).backward();
  expect_close(x.grad(), 2 * weight(last()) * x.detach());
}

TEST_F(FunctionalMultirankTest, ScatterTakesAGradientFromEachRank) {
  const Tensors x = of_all_ranks([](int rank) { return (input_of(rank) + 1).requires_grad_(); });
  const at::Tensor y = F::scatter(x, last());
  expect_close(y, input_of(get_rank()) + 1);
  loss(y).backward();
  for (int rank = 0; rank < get_world_size(); ++rank) {
    const at::Tensor& one = x[static_cast<std::size_t>(rank)];
    expect_close(one.grad(), (is_last() ? 2 * weight(rank) : 0) * one.detach());
  }
}

TEST_F(FunctionalMultirankTest, ReduceScatterTakesAGradientFromEachRank) {
  const Tensors x =
      of_all_ranks([](int rank) { return (input_of(rank) + get_rank()).requires_grad_(); });
  const auto sum = [](int rank) {
    return at::stack(of_all_ranks([&](int from) { return input_of(rank) + from; })).sum(0);
  };
  const at::Tensor y = F::reduce_scatter(x);
  expect_close(y, sum(get_rank()));
  loss(y).backward();
  for (int rank = 0; rank < get_world_size(); ++rank) {
    expect_close(x[static_cast<std::size_t>(rank)].grad(), 2 * weight(rank) * sum(rank));
  }
}

// Rank r sends r + 1 rows to every rank.
TEST_F(FunctionalMultirankTest, AllToAllSendsTheGradientsBack) {
  const auto rows = [](int rank) { return at::ones({rank + 1, 2}); };
  const Tensors x = of_all_ranks([&](int) { return (rows(get_rank()) * 3).requires_grad_(); });
  const Tensors room = of_all_ranks(rows), y = F::all_to_all(room, x);
  for (int rank = 0; rank < get_world_size(); ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    expect_close(y[i], rows(rank) * 3);
    expect_close(room[i], rows(rank));
  }
  loss(y).backward();
  for (int rank = 0; rank < get_world_size(); ++rank) {
    expect_close(x[static_cast<std::size_t>(rank)].grad(), 6 * weight(rank) * rows(get_rank()));
  }
}

TEST_F(FunctionalMultirankTest, AllToAllSingleSendsTheGradientsBack) {
  const int ranks = get_world_size();
  const std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks), get_rank() + 1);
  const auto received = of_all_ranks([](int rank) { return std::int64_t{rank} + 1; });
  const at::Tensor x = at::full({ranks * (get_rank() + 1), 2}, 3.0).requires_grad_();
  const at::Tensor room = at::empty({ranks * (ranks + 1) / 2, 2});
  const at::Tensor y = F::all_to_all_single(room, x, received, sent);
  expect_close(y, at::full(room.sizes(), 3.0));
  loss(y).backward();
  const auto part = [](int rank) { return at::full({get_rank() + 1, 2}, 6 * weight(rank)); };
  expect_close(x.grad(), at::cat(of_all_ranks(part)));
}

TEST_F(FunctionalMultirankTest, GivesUnusedOutputsZeroGradients) {
  const at::Tensor x = input();
  const Tensors y = F::all_gather(x);
  loss(y[0]).backward();
  expect_close(x.grad(), (get_rank() == 0 ? 2 * sum_of_weights() : 0) * x.detach());
}

// Each backward waits for the other ranks, so different orders would block.
TEST_F(FunctionalMultirankTest, RunsBackwardsInTheSameOrderOnEveryRank) {
  const at::Tensor x = input(), sum = F::all_reduce(x), first = F::broadcast(x, 0);
  const Tensors all = F::all_gather(x);
  const at::Tensor losses = get_rank() % 2 == 0 ? loss(sum) + loss(first) + loss(all)
                                                : loss(all) + loss(first) + loss(sum);
  losses.backward();
  const at::Tensor of_first = (get_rank() == 0 ? 2 * sum_of_weights() : 0) * x.detach();
  expect_close(x.grad(), 2 * sum_of_weights() * (sum_of_inputs() + x.detach()) + of_first);
}

// Every gradient is 2 w s, for the sum w of the weights and the sum s of the inputs. Its square has
// the gradient 8 w² s on each rank.
TEST_F(FunctionalMultirankTest, ComputesGradientsOfGradients) {
  const at::Tensor x = input();
  const auto gradient = torch::autograd::grad({loss(F::all_reduce(x))}, {x}, {},
                                              /*retain_graph=*/true, /*create_graph=*/true)[0];
  gradient.pow(2).sum().backward();
  const double weights = sum_of_weights();
  expect_close(x.grad(), 8 * weights * weights * get_world_size() * sum_of_inputs());
}

TEST_F(FunctionalMultirankTest, RunsInAGroupOfSomeRanks) {
  const Group group = new_group({last()});
  if (!is_last()) {
    EXPECT_THAT(error_of<c10::ValueError>([&] { F::all_reduce(input(), ReduceOp::SUM, group); }),
                HasSubstr("it is not in group 1 of rank"));
    return;
  }
  const at::Tensor x = input();
  loss(F::broadcast(x, last(), group)).backward();
  expect_close(x.grad(), 2 * weight() * x.detach());
}

TEST_F(FunctionalMultirankTest, RejectsInvalidTensorsAndReductionsWithoutGradient) {
  const auto most = [](const at::Tensor& x) { return F::all_reduce(x, ReduceOp::MAX); };
  EXPECT_EQ(error_of<c10::ValueError>([&] { most(input()); }),
            "all_reduce on rank " + std::to_string(get_rank()) +
                ": MAX has no gradient; expected SUM or AVG, or tensors that require none");
  EXPECT_THAT(error_of<c10::ValueError>([] { F::all_reduce(at::Tensor()); }),
              HasSubstr("a tensor is not defined"));
  EXPECT_THAT(error_of<c10::ValueError>([] { F::scatter({}); }),
              HasSubstr("tensors has 0 tensors"));
  EXPECT_THAT(error_of<c10::ValueError>([] { F::all_to_all(of_all_ranks(input_of), {}); }),
              HasSubstr("inputs has 0 tensors"));
  EXPECT_THAT(error_of<c10::ValueError>([] { F::all_to_all({}, of_all_ranks(input_of)); }),
              HasSubstr("outputs has 0 tensors"));
  EXPECT_THAT(error_of<c10::ValueError>([] {
                F::all_to_all(of_all_ranks([](int) {
                                return at::ones({2, 3}, at::kDouble);
                              }),
                              of_all_ranks(input_of));
              }),
              HasSubstr("outputs has dtype Double; expected Float, the dtype of inputs"));
  expect_close(most(input().detach()), input_of(last()));
  const at::NoGradGuard no_grad;
  expect_close(most(input()), input_of(last()));
}

}  // namespace
}  // namespace distrun
