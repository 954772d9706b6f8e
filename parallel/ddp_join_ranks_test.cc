#include <stdexcept>

#include "parallel/ddp_testing.h"
#include "parallel/join.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

struct DdpJoinRanksTest : DdpRanksTest {
  // The parameters of all ranks are equal, and none is as it began.
  static void expect_the_same_everywhere(const torch::nn::Module& net) {
    for (const at::Tensor& one : net.parameters()) {
      const at::Tensor own = one.detach().clone();
      const Tensors all = of_all_ranks([&](int) { return at::empty_like(own); });
      all_gather(all, own);
      for (const at::Tensor& other : all) EXPECT_TRUE(other.equal(own));
    }
  }

  template <class Net>
  static void train(DistributedDataParallel<Net>& ddp, int inputs) {
    for (int i = 0; i < inputs; ++i) {
      loss(ddp(data())).backward();
      const at::NoGradGuard no_grad;
      for (at::Tensor& one : ddp.parameters()) {
        one.sub_(one.grad(), 1e-4);
        one.mutable_grad().zero_();
      }
    }
  }
};

TEST_F(DdpJoinRanksTest, UnevenInputsTrainToTheEndAndLeaveOneModel) {
  for (const bool unused : {false, true}) {
    for (const bool view : {false, true}) {
      DistributedDataParallel ddp(
          TwoLayers(),
          {.bucket_cap_mb = 0, .find_unused_parameters = unused, .gradient_as_bucket_view = view});
      Join({ddp}).run([&] { train(ddp, 1 + 2 * get_rank()); });
      expect_the_same_everywhere(*ddp.module());
    }
  }
}

// The last step of the last rank, alone: divided by all ranks, or by one.
TEST_F(DdpJoinRanksTest, GradientsAreDividedByTheRanksThatAreLeftWhereThatIsWanted) {
  const int last = get_world_size() - 1;
  for (const bool initial : {true, false}) {
    DistributedDataParallel ddp{TwoLayers()};
    Tensors own, reduced;
    Join({ddp}, {.arguments = {{"divide_by_initial_world_size", initial}}}).run([&] {
      if (get_rank() != last) return;
      const auto alone = std::make_shared<TwoLayersImpl>();
      {
        const at::NoGradGuard no_grad;
        for (std::size_t i = 0; i < 4; ++i) alone->parameters()[i].copy_(ddp.parameters()[i]);
      }
      loss(alone->forward(data())).backward();
      loss(ddp(data())).backward();
      for (const at::Tensor& one : alone->parameters()) own.push_back(one.grad());
      for (const at::Tensor& one : ddp.parameters()) reduced.push_back(one.grad());
    });
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(at::allclose(reduced[i] * (initial ? get_world_size() : 1), own[i])) << i;
    }
  }
}

TEST_F(DdpJoinRanksTest, StepsWithoutReductionAreShadowedAsSuch) {
  DistributedDataParallel ddp{TwoLayers()};
  Join({ddp}).run([&] {
    for (int i = 0; i < 1 + get_rank(); ++i) {
      {
        const auto alone = ddp.no_sync();
        loss(ddp(data())).backward();
      }
      train(ddp, 1);
    }
  });
  expect_the_same_everywhere(*ddp.module());
}

// Counts forwards: who joined has counted fewer.
struct CountingImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(3, 2));
  at::Tensor count = register_buffer("count", at::zeros({1}));
  at::Tensor forward(const at::Tensor& x) {
    count.add_(1);
    return linear(x);
  }
};

TEST_F(DdpJoinRanksTest, BuffersAreThoseOfARankThatHasNotJoined) {
  DistributedDataParallel ddp(std::make_shared<CountingImpl>());
  Join({ddp}).run([&] {
    for (int i = 0; i < 2 + get_rank(); ++i) {
      loss(ddp(data())).backward();
      EXPECT_EQ(ddp.module()->count.item<int>(), i + 1);
    }
  });
  EXPECT_EQ(ddp.module()->count.item<int>(), 1 + get_world_size());
}

TEST_F(DdpJoinRanksTest, ABodyThatThrowsIsToldToRanksThatWaitInBackward) {
  const int last = get_world_size() - 1;
  DistributedDataParallel ddp{TwoLayers()};
  std::string text;
  try {
    Join({ddp}).run([&] {
      train(ddp, 1);
      if (get_rank() == last) throw std::runtime_error("the data is gone");
      train(ddp, 2);
    });
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("the data is gone"));
  if (get_rank() != last) {
    EXPECT_THAT(text, HasSubstr("rank " + std::to_string(last) + " has failed"));
  }
  destroy_process_group();
}

TEST_F(DdpJoinRanksTest, AStaticGraphAndAHookAreShadowedToo) {
  DistributedDataParallel fixed(TwoLayers(), {.static_graph = true});
  Join({fixed}).run([&] { train(fixed, 2 + get_rank()); });
  expect_the_same_everywhere(*fixed.module());

  DistributedDataParallel hooked{TwoLayers()};
  hooked.register_builtin_comm_hook(BuiltinCommHook::FP16_COMPRESS);
  Join({hooked}).run([&] { train(hooked, 2 + get_rank()); });
  expect_the_same_everywhere(*hooked.module());
}

// What a static graph uses is learnt in the first backward, at which a rank may be through already.
TEST_F(DdpJoinRanksTest, ARankWithoutAnyInputTakesPartInLearningAStaticGraph) {
  DistributedDataParallel ddp(TwoLayers(), {.static_graph = true});
  Join join({ddp});
  join.run([&] { train(ddp, get_rank() == 0 && get_world_size() > 1 ? 0 : 3); });
  expect_the_same_everywhere(*ddp.module());

  // That rank cannot train with the others any more, and all are told.
  if (get_world_size() == 1) return;
  EXPECT_THAT(error_of([&] { join.run([&] { train(ddp, 1); }); }),
              HasSubstr("rank 0 had no input in the join in which the static graph was learnt"));
  destroy_process_group();
}

TEST_F(DdpJoinRanksTest, AfterTheJoinGradientsAreDividedByAllRanks) {
  DistributedDataParallel ddp{TwoLayers()};
  Join({ddp}, {.arguments = {{"divide_by_initial_world_size", false}}}).run([&] {
    train(ddp, 1 + get_rank());
  });
  loss(ddp(data())).backward();
  expect_gradients(*ddp.module(), mean_gradients(*ddp.module()));
}

TEST_F(DdpJoinRanksTest, ForwardsWithoutGradientsAreShadowedAsSuch) {
  DistributedDataParallel ddp(TwoLayers(), {.bucket_cap_mb = 0});
  Join({ddp}).run([&] {
    for (int i = 0; i < 1 + 2 * get_rank(); ++i) {
      if (i > 0) {  // Buckets are arranged anew in the forward that follows the first backward.
        const at::NoGradGuard no_grad;
        EXPECT_FALSE(ddp(data()).requires_grad());
      }
      train(ddp, 1);
    }
  });
  expect_the_same_everywhere(*ddp.module());
}

TEST_F(DdpJoinRanksTest, SeveralModulesTrainInOneJoin) {
  DistributedDataParallel one{TwoLayers()}, other{TwoLayers()};
  Join({one, other}).run([&] {
    for (int i = 0; i < 2 + get_rank(); ++i) {
      train(one, 1);
      train(other, 1);
    }
  });
  expect_the_same_everywhere(*one.module());
  expect_the_same_everywhere(*other.module());
}

TEST_F(DdpJoinRanksTest, TheNumberOfRanksThatAreLeftIsTheFirstJoinablesToKnow) {
  DistributedDataParallel one{TwoLayers()}, other{TwoLayers()};
  Join join({one, other}, {.arguments = {{"divide_by_initial_world_size", false}}});
  EXPECT_THAT(error_of([&] {
                join.run([&] {
                  train(one, 1);
                  train(other, 1);
                });
              }),
              HasSubstr("the DistributedDataParallel is not the first joinable"));
  destroy_process_group();
}

TEST_F(DdpJoinRanksTest, UnevenInputsAreAnErrorOnEveryRankWhereThatIsWanted) {
  DistributedDataParallel ddp{TwoLayers()};
  Join join({ddp}, {.throw_on_early_termination = true});
  const std::string error = error_of([&] { join.run([&] { train(ddp, 1 + get_rank()); }); });
  if (get_world_size() == 1) {
    EXPECT_EQ(error, "no error");
  } else if (get_rank() == 0) {
    EXPECT_EQ(error, "Rank 0 exhausted all inputs.");
  } else {
    EXPECT_THAT(error, HasSubstr("Detected at least one rank that exhausted inputs"));
  }
  // The model is good, and so is the group.
  train(ddp, 2);
  expect_the_same_everywhere(*ddp.module());
}

}  // namespace
}  // namespace distrun
