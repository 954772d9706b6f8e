#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>

#include <torch/nn/modules/embedding.h>

#include "distrun/join.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct DdpJoinMultirankTest : DdpMultirankTest {
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

  static std::shared_ptr<TwoLayersImpl> copy_of(const torch::nn::Module& net) {
    const auto copy = std::make_shared<TwoLayersImpl>();
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < copy->parameters().size(); ++i) {
      copy->parameters()[i].copy_(net.parameters()[i]);
    }
    return copy;
  }

  // Each step adds up the gradients of ranks with an input, `times` over, and divides by the number
  // of all ranks.
  static void expect_trained(const torch::nn::Module& net, TwoLayersImpl& start,
                             const std::function<int(int)>& inputs_of, int times = 1) {
    const std::vector<int> inputs = of_all_ranks(inputs_of);
    for (int step = 0; step < *std::max_element(inputs.begin(), inputs.end()); ++step) {
      for (int rank = 0; rank < get_world_size(); ++rank) {
        if (step < inputs[static_cast<std::size_t>(rank)]) {
          (loss(start.forward(data_of(rank))) * times).backward();
        }
      }
      const at::NoGradGuard no_grad;
      for (at::Tensor& one : start.parameters()) {
        one.sub_(one.grad() / get_world_size(), 1e-4);
        one.mutable_grad().zero_();
      }
    }
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      EXPECT_TRUE(net.parameters()[i].allclose(start.parameters()[i], 1e-5, 1e-7)) << i;
    }
    expect_the_same_everywhere(net);
  }
};

TEST_F(DdpJoinMultirankTest, TrainsWithUnevenInputsToOneModel) {
  for (const bool unused : {false, true}) {
    for (const bool view : {false, true}) {
      DistributedDataParallel ddp(
          TwoLayers(),
          {.bucket_cap_mb = 0, .find_unused_parameters = unused, .gradient_as_bucket_view = view});
      const auto start = copy_of(*ddp.module());
      Join({ddp}).run([&] { train(ddp, 1 + 2 * get_rank()); });
      expect_trained(*ddp.module(), *start, [](int rank) { return 1 + 2 * rank; });
    }
  }
}

// Only the last rank has an input.
TEST_F(DdpJoinMultirankTest, DividesByTheRanksThatAreLeftIfRequested) {
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

TEST_F(DdpJoinMultirankTest, ShadowsStepsWithoutReduction) {
  DistributedDataParallel ddp{TwoLayers()};
  const auto start = copy_of(*ddp.module());
  Join({ddp}).run([&] {
    for (int i = 0; i < 1 + get_rank(); ++i) {
      {
        const auto alone = ddp.no_sync();
        loss(ddp(data())).backward();
      }
      train(ddp, 1);
    }
  });
  expect_trained(
      *ddp.module(), *start, [](int rank) { return 1 + rank; }, /*times=*/2);
}

// Counts forwards; a rank that has joined counts fewer.
struct CountingImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(3, 2));
  at::Tensor count = register_buffer("count", at::zeros({1}));
  at::Tensor forward(const at::Tensor& x) {
    count.add_(1);
    return linear(x);
  }
};

TEST_F(DdpJoinMultirankTest, TakesBuffersFromARankThatHasNotJoined) {
  DistributedDataParallel ddp(std::make_shared<CountingImpl>());
  Join({ddp}).run([&] {
    for (int i = 0; i < 2 + get_rank(); ++i) {
      loss(ddp(data())).backward();
      EXPECT_EQ(ddp.module()->count.item<int>(), i + 1);
    }
  });
  EXPECT_EQ(ddp.module()->count.item<int>(), 1 + get_world_size());
}

TEST_F(DdpJoinMultirankTest, ReportsAnExceptionOfTheBodyToRanksInBackward) {
  const int last = get_world_size() - 1;
  DistributedDataParallel ddp{TwoLayers()};
  std::string text;
  try {
    Join({ddp}).run([&] {
      train(ddp, 1);
      const at::Tensor output = ddp(data());
      if (get_rank() == last) throw std::runtime_error("the data is gone");
      loss(output).backward();
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

TEST_F(DdpJoinMultirankTest, ShadowsAStaticGraphAndAHook) {
  for (const bool unused : {false, true}) {
    DistributedDataParallel fixed(TwoLayers(),
                                  {.find_unused_parameters = unused, .static_graph = true});
    const auto start = copy_of(*fixed.module());
    Join({fixed}).run([&] { train(fixed, 2 + get_rank()); });
    expect_trained(*fixed.module(), *start, [](int rank) { return 2 + rank; });
  }

  DistributedDataParallel hooked{TwoLayers()};
  hooked.register_builtin_comm_hook(BuiltinCommHook::FP16_COMPRESS);
  Join({hooked}).run([&] { train(hooked, 2 + get_rank()); });
  expect_the_same_everywhere(*hooked.module());
}

// A rank may already have joined at the first backward, which learns the graph.
TEST_F(DdpJoinMultirankTest, LearnsAStaticGraphWithARankWithoutInputs) {
  DistributedDataParallel ddp(TwoLayers(), {.static_graph = true});
  const auto start = copy_of(*ddp.module());
  const auto inputs = [](int rank) { return rank == 0 && get_world_size() > 1 ? 0 : 3; };
  Join join({ddp});
  join.run([&] { train(ddp, inputs(get_rank())); });
  expect_trained(*ddp.module(), *start, inputs);
  {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(ddp(data()).equal(ddp.module()->forward(data())));
  }

  // That rank can no longer train with the others, and every rank reports this.
  if (get_world_size() == 1) return;
  EXPECT_THAT(error_of([&] { join.run([&] { train(ddp, 1); }); }),
              HasSubstr("DistributedDataParallel: rank 0 had no input in the join that learned the "
                        "static graph, and cannot train with the other ranks; give it an input in "
                        "that join, or create a new DistributedDataParallel"));
  destroy_process_group();
}

TEST_F(DdpJoinMultirankTest, DividesByAllRanksAfterTheJoin) {
  DistributedDataParallel ddp{TwoLayers()};
  Join({ddp}, {.arguments = {{"divide_by_initial_world_size", false}}}).run([&] {
    train(ddp, 1 + get_rank());
  });
  loss(ddp(data())).backward();
  expect_gradients(*ddp.module(), mean_gradients(*ddp.module()));
}

TEST_F(DdpJoinMultirankTest, ShadowsForwardsWithoutGradients) {
  DistributedDataParallel ddp(TwoLayers(), {.bucket_cap_mb = 0});
  const auto start = copy_of(*ddp.module());
  Join({ddp}).run([&] {
    for (int i = 0; i < 1 + 2 * get_rank(); ++i) {
      if (i > 0) {  // The forward after the first backward rebuilds the buckets.
        const at::NoGradGuard no_grad;
        EXPECT_FALSE(ddp(data()).requires_grad());
      }
      train(ddp, 1);
    }
  });
  expect_trained(*ddp.module(), *start, [](int rank) { return 1 + 2 * rank; });
}

TEST_F(DdpJoinMultirankTest, TrainsSeveralModulesInOneJoin) {
  DistributedDataParallel one{TwoLayers()}, other{TwoLayers()};
  const auto start_of_one = copy_of(*one.module()), start_of_other = copy_of(*other.module());
  Join({one, other}).run([&] {
    for (int i = 0; i < 2 + get_rank(); ++i) {
      train(one, 1);
      train(other, 1);
    }
  });
  const auto inputs = [](int rank) { return 2 + rank; };
  expect_trained(*one.module(), *start_of_one, inputs);
  expect_trained(*other.module(), *start_of_other, inputs);
}

TEST_F(DdpJoinMultirankTest, DividesByTheRanksThatAreLeftOnlyAsFirstJoinable) {
  DistributedDataParallel one{TwoLayers()}, other{TwoLayers()};
  Join join({one, other}, {.arguments = {{"divide_by_initial_world_size", false}}});
  EXPECT_EQ(error_of([&] {
              join.run([&] {
                train(one, 1);
                train(other, 1);
              });
            }),
            "join: divide_by_initial_world_size is off, but the DistributedDataParallel is not the "
            "first joinable; only the first joinable knows how many ranks are left");
  destroy_process_group();
}

TEST_F(DdpJoinMultirankTest, ThrowsOnEveryRankForUnevenInputsIfRequested) {
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
  // The model and the group stay usable.
  train(ddp, 2);
  expect_the_same_everywhere(*ddp.module());
}

// Another rank's forward has gradients; its backward would wait for this rank's.
TEST_F(DdpJoinMultirankTest, ThrowsOnEveryRankForForwardsOfDifferentKinds) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  DistributedDataParallel ddp{TwoLayers()};
  const std::string error = error_of([&] {
    Join({ddp}).run([&] {
      train(ddp, 1 + get_rank());
      const at::NoGradGuard no_grad;
      ddp(data());
    });
  });
  EXPECT_THAT(error, HasSubstr("join: the backward of this forward on rank "));
  EXPECT_THAT(error, HasSubstr(" does not reduce (no gradients, or no_sync()), but another rank's "
                               "does; in a join, the n-th forward of a module must be of the same "
                               "kind on all ranks"));
  EXPECT_THAT(error, Not(HasSubstr("Timed out")));
  destroy_process_group();
}

// It has no gradient, even if it had one before a rank joined.
TEST_F(DdpJoinMultirankTest, DoesNotTouchAParameterThatNoRankUses) {
  DistributedDataParallel ddp(std::make_shared<PartsImpl>(1), {.find_unused_parameters = true});
  const at::Tensor& first = ddp.module()->parts[0];
  Join({ddp}).run([&] {
    for (int i = 0; i < 1 + 2 * get_rank(); ++i) {
      ddp(i == 0 ? 0 : 1).backward();
      EXPECT_EQ(first.grad().defined(), i == 0) << i;
      ddp.zero_grad(/*set_to_none=*/true);
    }
  });
}

TEST_F(DdpJoinMultirankTest, RejectsModelsThatAJoinedRankCannotShadow) {
  DistributedDataParallel skips(
      TwoLayers(), {.find_unused_parameters = true, .skip_all_reduce_unused_params = true});
  EXPECT_EQ(error_of([&] { Join({skips}).run([] {}); }),
            "join: a DistributedDataParallel with skip_all_reduce_unused_params cannot take part "
            "because a joined rank does not know which buckets the others skip");
  destroy_process_group();
  MultirankTest::SetUp();
  DistributedDataParallel sparse(
      std::make_shared<torch::nn::EmbeddingImpl>(torch::nn::EmbeddingOptions(4, 2).sparse(true)));
  EXPECT_EQ(error_of([&] { Join({sparse}).run([] {}); }),
            "join: the gradient of the parameter 'weight' is sparse, which a joined rank cannot "
            "reduce; use dense gradients");
  destroy_process_group();
}

TEST_F(DdpJoinMultirankTest, EachJoinHasItsOwnArguments) {
  DistributedDataParallel ddp{TwoLayers()};
  const auto alone = copy_of(*ddp.module());
  loss(alone->forward(data())).backward();
  Join by_those_left({ddp}, {.arguments = {{"divide_by_initial_world_size", false}}});
  const Join by_all({ddp});
  by_those_left.run([&] {
    if (get_rank() != get_world_size() - 1) return;
    loss(ddp(data())).backward();
    EXPECT_TRUE(ddp.parameters()[0].grad().allclose(alone->parameters()[0].grad()));
  });
}

// Records the gradients in each iteration, also of a rank that has joined.
class GradientRecorder : public Joinable {
 public:
  explicit GradientRecorder(const torch::nn::Module& net) : parameters_(net.parameters()) {}
  void record() {
    notify_join_context();
    gradients_.emplace_back();
    for (const at::Tensor& one : parameters_) {
      gradients_.back().push_back(one.grad().defined() ? one.grad().clone() : at::Tensor());
    }
  }
  const std::vector<Tensors>& gradients() const { return gradients_; }

  std::unique_ptr<JoinHook> join_hook(const JoinArguments& /*arguments*/) override {
    struct Hook : JoinHook {
      explicit Hook(GradientRecorder& all) : its(all) {}
      void main_hook() override { its.record(); }
      GradientRecorder& its;
    };
    return std::make_unique<Hook>(*this);
  }
  c10::Device join_device() const override { return at::kCPU; }
  Group join_process_group() const override { return {}; }

 private:
  Tensors parameters_;
  std::vector<Tensors> gradients_;
};

TEST_F(DdpJoinMultirankTest, AJoinedRankGetsTheGradientsOfTheOthers) {
  for (const bool view : {false, true}) {
    const auto net = std::make_shared<TwoLayersImpl>();
    DistributedDataParallel ddp(net, {.gradient_as_bucket_view = view});
    GradientRecorder recorder(*net);
    Tensors own;
    Join({ddp, recorder}).run([&] {
      for (int i = 0; i < 1 + 2 * get_rank(); ++i) {
        for (at::Tensor& one : ddp.parameters()) {
          if (one.grad().defined()) one.mutable_grad().zero_();
        }
        loss(ddp(data() * (i + 1))).backward();
        recorder.record();
      }
      for (const at::Tensor& one : net->parameters()) own.push_back(one.grad().clone());
    });
    const int steps = 2 * get_world_size() - 1;
    ASSERT_EQ(recorder.gradients().size(), steps);
    for (const Tensors& gradients : recorder.gradients()) {
      for (const at::Tensor& one : gradients) {
        ASSERT_TRUE(one.defined());
        expect_same_everywhere(one);
      }
    }
    // After the join, a rank has its own gradients again.
    for (std::size_t i = 0; i < own.size(); ++i) {
      EXPECT_TRUE(net->parameters()[i].grad().equal(own[i])) << i;
    }
  }
}

TEST_F(DdpJoinMultirankTest, AJoinedRankHasNoGradientOfAParameterThatNoRankUses) {
  const auto net = std::make_shared<PartsImpl>(1);
  DistributedDataParallel ddp(net, {.find_unused_parameters = true});
  GradientRecorder recorder(*net);
  Join({ddp, recorder}).run([&] {
    for (int i = 0; i < 1 + 2 * get_rank(); ++i) {
      for (at::Tensor& one : ddp.parameters()) one.mutable_grad().reset();
      ddp(i == 0 ? 0 : 1).backward();
      recorder.record();
    }
  });
  for (std::size_t i = 0; i < recorder.gradients().size(); ++i) {
    EXPECT_EQ(recorder.gradients()[i][0].defined(), i == 0) << i;
    EXPECT_EQ(recorder.gradients()[i][1].defined(), i != 0) << i;
  }
}

}  // namespace
}  // namespace distrun
