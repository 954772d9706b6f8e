// Differentiable sends and receives, on every rank of a run.
//
//     distrun launch --nproc-per-node 3 build/tests/parallel_multirank_test
//         --gtest_filter='FunctionalPointToPointMultirankTest.*'
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "backends/test/multirank_test.h"
#include "distrun/functional_point_to_point.h"
#include "parallel/test/recomputed.h"

namespace distrun {
namespace {

namespace F = functional;
using Step = Recomputed::Step;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class FunctionalPointToPointMultirankTest : public MultirankTest {
 protected:
  using Kind = P2POp::Kind;

  static int last() { return get_world_size() - 1; }
  static bool is_first() { return get_rank() == 0; }
  static bool is_last() { return get_rank() == last(); }
  static int next() { return (get_rank() + 1) % get_world_size(); }
  static int previous() { return (get_rank() + last()) % get_world_size(); }

  static at::Tensor weight_of(int rank, at::ScalarType dtype = at::kDouble) {
    return (at::arange(16, dtype).view({4, 4}) * 0.1 + rank).sin().requires_grad_();
  }
  static at::Tensor data(at::ScalarType dtype = at::kDouble) {
    return at::arange(12, dtype).view({3, 4}).cos();
  }
  static at::Tensor layer(const at::Tensor& x, const at::Tensor& weight) {
    return at::tanh(at::linear(x, weight));
  }
  static at::Tensor loss(const at::Tensor& y) { return y.pow(2).sum(); }
  static at::Tensor room(at::ScalarType dtype = at::kDouble) {
    return at::empty({3, 4}, dtype).requires_grad_();
  }

  // The gradients of all layers of a chain in one process, and its output.
  static std::pair<Tensors, at::Tensor> chain_alone(at::ScalarType dtype) {
    const Tensors weights = of_all_ranks([&](int rank) { return weight_of(rank, dtype); });
    at::Tensor x = data(dtype);
    for (const at::Tensor& one : weights) x = layer(x, one);
    loss(x).backward();
    Tensors gradients;
    for (const at::Tensor& one : weights) gradients.push_back(one.grad());
    return {gradients, x.detach()};
  }

  // One layer for each rank. `run` computes a layer. Compares with one process.
  static void expect_chain(const Step& run, const at::Tensor& weight, at::ScalarType dtype) {
    const at::Tensor x = is_first() ? data(dtype) : F::recv(room(dtype), previous());
    const at::Tensor y = run(x);
    const auto [gradients, output] = chain_alone(dtype);
    if (is_last()) {
      EXPECT_TRUE(y.allclose(output));
      loss(y).backward();
    } else {
      F::send(y, next()).backward();
    }
    expect_close(weight.grad(), gradients[static_cast<std::size_t>(get_rank())]);
  }

  static void expect_close(const at::Tensor& got, const at::Tensor& expected) {
    ASSERT_TRUE(got.defined());
    EXPECT_TRUE(got.allclose(expected)) << got << "\nexpected\n" << expected;
  }
};

TEST_F(FunctionalPointToPointMultirankTest, AChainOfRanksComputesTheGradientsOfOneProcess) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const at::Tensor weight = weight_of(get_rank(), dtype);
    expect_chain([&](const at::Tensor& x) { return layer(x, weight); }, weight, dtype);
  }
}

TEST_F(FunctionalPointToPointMultirankTest, LayersBetweenMessagesCanBeRecomputed) {
  const at::Tensor weight = weight_of(get_rank());
  const Step step = [&](const at::Tensor& x) { return layer(x, weight); };
  expect_chain(
      [&](const at::Tensor& x) {
        return Recomputed::apply(x.requires_grad() ? x : x.detach().requires_grad_(), step);
      },
      weight, at::kDouble);
}

TEST_F(FunctionalPointToPointMultirankTest, MessagesCanBeRecomputedOnAllRanks) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor weight = weight_of(get_rank());
  const Step step = [&](const at::Tensor& x) {
    const at::Tensor input = is_first() ? x : F::recv(room(), previous());
    const at::Tensor y = layer(input, weight);
    return is_last() ? y : F::send(y, next());
  };
  const at::Tensor y = Recomputed::apply(data().requires_grad_(), step);
  (is_last() ? loss(y) : y).backward();
  const auto [gradients, output] = chain_alone(at::kDouble);
  if (is_last()) expect_close(y.detach(), output);
  expect_close(weight.grad(), gradients[static_cast<std::size_t>(get_rank())]);
}

// With the same tag, and of different sizes: another order would mix them up.
TEST_F(FunctionalPointToPointMultirankTest, SeveralMessagesOfAPairKeepTheirOrder) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const auto part = [](int i) { return at::full({i + 1}, i + 2.0); };
  if (is_first()) {
    Tensors parts;
    at::Tensor tokens = at::zeros({});
    for (int i = 0; i < 4; ++i) {
      parts.push_back(part(i).requires_grad_());
      tokens = F::send(parts.back(), 1) + tokens;
    }
    tokens.backward();
    for (int i = 0; i < 4; ++i) {
      expect_close(parts[static_cast<std::size_t>(i)].grad(), (i + 1) * 2 * part(i));
    }
  } else if (get_rank() == 1) {
    Tensors losses;
    for (int i = 0; i < 4; ++i) {
      const at::Tensor got = F::recv(at::empty({i + 1}).requires_grad_(), 0);
      expect_close(got.detach(), part(i));
      losses.push_back((i + 1) * loss(got));
    }
    (losses[2] + losses[0] + losses[3] + losses[1]).backward();
  }
}

TEST_F(FunctionalPointToPointMultirankTest, MessagesOfABatchAreInFlightTogether) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const auto part = [](int tag) { return at::full({100000 + tag}, tag + 1.0); };
  std::vector<P2POp> operations;
  if (is_first()) {
    for (const int tag : {0, 1, 2}) {
      operations.push_back({Kind::kSend, part(tag).requires_grad_(), 1, {.tag = tag}});
    }
    const Tensors tokens = F::batch_isend_irecv(operations);
    (tokens[0] + tokens[1] + tokens[2]).backward();
    for (const int tag : {0, 1, 2}) {
      expect_close(operations[static_cast<std::size_t>(tag)].tensor.grad(),
                   (tag + 1) * 2 * part(tag));
    }
  } else if (get_rank() == 1) {
    at::Tensor all = at::zeros({});
    for (const int tag : {2, 0, 1}) {  // Alone, and in another order: the tags match.
      const at::Tensor got = F::recv(at::empty_like(part(tag)).requires_grad_(), 0, {.tag = tag});
      expect_close(got.detach(), part(tag));
      all = all + (tag + 1) * loss(got);
    }
    all.backward();
  }
}

// The messages of this rank match sends and receives of other ranks that are not in batches.
TEST_F(FunctionalPointToPointMultirankTest, ABatchMatchesSingleMessagesWithOneTag) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const auto part = [](int i) { return at::full({i + 1}, i + 2.0); };
  if (is_first()) {
    const at::Tensor a = part(0).requires_grad_(), b = part(1).requires_grad_();
    const Tensors tokens = F::batch_isend_irecv({{Kind::kSend, a, 1}, {Kind::kSend, b, 1}});
    tokens[0].backward();  // Runs both.
    expect_close(a.grad(), 2 * part(0));
    expect_close(b.grad(), 6 * part(1));
  } else if (get_rank() == 1) {
    const at::Tensor a = F::recv(at::empty({1}).requires_grad_(), 0);
    const at::Tensor b = F::recv(at::empty({2}).requires_grad_(), 0);
    (loss(a) + 3 * loss(b)).backward();
  }
}

TEST_F(FunctionalPointToPointMultirankTest, ARingExchangesTensorsAndGradients) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor x = input().requires_grad_();
  const Tensors got = F::batch_isend_irecv(
      {{Kind::kSend, x, next()}, {Kind::kReceive, at::empty_like(x).requires_grad_(), previous()}});
  expect_close(got[1].detach(), input_of(previous()));
  EXPECT_EQ(got[0].item<double>(), 0);
  ((get_rank() + 1) * loss(got[1])).backward();
  expect_close(x.grad(), 2 * (next() + 1) * input());
}

TEST_F(FunctionalPointToPointMultirankTest, ATensorSentToAllRanksAddsUpTheirGradients) {
  if (!is_first()) {
    const at::Tensor got = F::recv(at::empty({2, 3}).requires_grad_(), 0);
    return (get_rank() * loss(got)).backward();
  }
  const at::Tensor x = input().requires_grad_();
  at::Tensor all = 5 * loss(x);  // A rank with a loss, and tokens.
  for (int rank = 1; rank < get_world_size(); ++rank) all = all + F::send(x, rank);
  EXPECT_EQ(all.item<double>(), 5 * loss(input()).item<double>());
  all.backward();
  expect_close(x.grad(), 2 * (5 + last() * (last() + 1) / 2) * input());
}

TEST_F(FunctionalPointToPointMultirankTest, UnusedAndStridedPartsHaveGradients) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  if (is_first()) {
    const at::Tensor x = data().requires_grad_();
    F::send(x.t(), 1).backward();
    const at::Tensor expected = at::zeros({3, 4}, at::kDouble);
    expected.select(1, 1).fill_(1);
    expect_close(x.grad(), expected);
  } else if (get_rank() == 1) {
    const at::Tensor got = F::recv(at::empty({4, 3}, at::kDouble).requires_grad_(), 0);
    expect_close(got.detach(), data().t());
    got[1].sum().backward();  // Its gradient is expanded.
  }
}

TEST_F(FunctionalPointToPointMultirankTest, TensorsWithoutGradientAreOnlySent) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const at::Tensor indices = at::arange(3), x = input().requires_grad_();
  if (is_first()) {
    const Tensors tokens = F::batch_isend_irecv({{Kind::kSend, indices, 1}, {Kind::kSend, x, 1}});
    EXPECT_FALSE(tokens[0].requires_grad());
    tokens[1].backward();
    expect_close(x.grad(), 2 * input());
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(F::send(x, 1).requires_grad());
  } else if (get_rank() == 1) {
    const at::Tensor room = at::empty({2, 3}).requires_grad_();
    // Alone, so that a gradient of the first one would not match.
    const at::Tensor got_indices = F::recv(at::zeros({3}, at::kLong), 0);
    EXPECT_TRUE(got_indices.equal(indices));
    EXPECT_FALSE(got_indices.requires_grad());
    loss(F::recv(room, 0)).backward();
    EXPECT_FALSE(room.grad().defined());
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(F::recv(room, 0).requires_grad());
  }
}

TEST_F(FunctionalPointToPointMultirankTest, SendsWithinAGroup) {
  if (get_world_size() < 2) GTEST_SKIP() << "needs a peer";
  const Group group = new_group({last() - 1, last()});
  if (!group.is_member()) {
    EXPECT_THAT(
        error_of<c10::ValueError>([&] { F::send(input(), last(), {.group = group}); }),
        HasSubstr("send on rank " + std::to_string(get_rank()) + ": it is not in group 1 of rank"));
    return;
  }
  if (get_rank(group) == 0) {
    const at::Tensor x = input().requires_grad_();
    F::send(x, GroupRank(1), {.group = group, .tag = 3}).backward();
    expect_close(x.grad(), 2 * input());
  } else {
    loss(F::recv(at::empty({2, 3}).requires_grad_(), last() - 1, {.group = group, .tag = 3}))
        .backward();
  }
  barrier({.group = group});
}

TEST_F(FunctionalPointToPointMultirankTest, RejectsInvalidArguments) {
  EXPECT_THAT(error_of<c10::ValueError>([] { F::send(at::Tensor(), 0); }),
              HasSubstr("a tensor is not defined"));
  EXPECT_THAT(error_of<c10::ValueError>([] { F::recv(input(), get_rank()); }),
              HasSubstr(get_world_size() == 1 ? "no other rank" : "the peer is this rank itself"));
  EXPECT_EQ(error_of<c10::ValueError>([] { F::batch_isend_irecv({}); }),
            "batch_isend_irecv: the list of operations is empty");
  if (get_world_size() == 1) return;
  EXPECT_THAT(error_of<c10::ValueError>([] { F::recv(input(), next(), {.tag = -1}); }),
              HasSubstr("the tag is -1; expected 0 or more"));
  const Group group = new_group();
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              F::batch_isend_irecv({{Kind::kSend, input(), next()},
                                    {Kind::kSend, input(), next(), {.group = group}}});
            }),
            "batch_isend_irecv: all operations must be in the same group");
  barrier({.group = group});
}

TEST_F(FunctionalPointToPointMultirankTest, RejectsGradientsOfGradients) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const std::string text = " on rank " + std::to_string(get_rank()) +
                           ": gradients of gradients (create_graph) are not supported";
  const auto backward = [](const at::Tensor& of) { of.backward({}, std::nullopt, true); };
  if (is_first()) {
    const at::Tensor token = F::send(input().requires_grad_(), 1);
    EXPECT_EQ(error_of([&] { backward(token); }), "send" + text);
  } else if (get_rank() == 1) {
    const at::Tensor got = F::recv(at::empty({2, 3}).requires_grad_(), 0);
    EXPECT_EQ(error_of([&] { backward(loss(got)); }), "recv" + text);
  }
}

TEST_F(FunctionalPointToPointMultirankTest, BackwardNamesARankThatHasFailed) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group group = new_group();
  barrier({.group = group});  // All ranks are connected.
  if (is_first()) {
    const at::Tensor token = F::send(input().requires_grad_(), 1, {.group = group});
    EXPECT_THAT(error_of<c10::DistBackendError>([&] { token.backward(); }),
                AllOf(HasSubstr("recv on rank 0 in group 1"), HasSubstr("rank 1")));
  } else if (get_rank() == 1) {
    F::recv(at::empty({2, 3}).requires_grad_(), 0, {.group = group});
    abort_process_group(group);  // In place of backward().
  }
}

}  // namespace
}  // namespace distrun
