// Updates during the backward of a DistributedDataParallel.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>

#include "distrun/apply_optimizer_in_backward.h"
#include "distrun/join.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

class ApplyOptimizerInBackwardMultirankTest : public DdpMultirankTest {
 protected:
  static std::shared_ptr<TwoLayersImpl> make_net() {
    torch::manual_seed(9);
    return std::make_shared<TwoLayersImpl>();
  }
  static void expect_same_values(const torch::nn::Module& a, const torch::nn::Module& b,
                                 double tolerance = 0) {
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      EXPECT_TRUE(a.parameters()[i].allclose(b.parameters()[i], tolerance, tolerance)) << i;
    }
  }
  static void expect_no_gradients(const torch::nn::Module& net) {
    for (const at::Tensor& one : net.parameters()) EXPECT_FALSE(one.grad().defined());
  }
  static constexpr const char* kReducesLater =
      "apply_optimizer_in_backward: a parameter belongs to a DistributedDataParallel, which "
      "reduces "
      "its gradient after this update; pass ddp.reducer() as the first argument";
};

TEST_F(ApplyOptimizerInBackwardMultirankTest, TrainsAsAStepAfterBackwardDoes) {
  for (const bool view : {false, true}) {
    const auto net = make_net(), plain = make_net();
    DistributedDataParallel ddp(net, {.bucket_cap_mb = 1e-5, .gradient_as_bucket_view = view}),
        ordinary_ddp(plain, {.bucket_cap_mb = 1e-5});
    const auto optimizer = apply_optimizer_in_backward<torch::optim::Adam>(
        ddp.reducer(), ddp.parameters(), torch::optim::AdamOptions(0.1).weight_decay(0.01));
    torch::optim::Adam ordinary(ordinary_ddp.parameters(),
                                torch::optim::AdamOptions(0.1).weight_decay(0.01));
    for (int step = 0; step < 6; ++step) {
      loss(ddp(data() * step)).backward();
      expect_no_gradients(*net);
      ordinary.zero_grad();
      loss(ordinary_ddp(data() * step)).backward();
      ordinary.step();
      expect_same_values(*net, *plain);
    }
    EXPECT_EQ(optimizer->state().size(), 4);
  }
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, TheDdpKeepsTheOptimizer) {
  const auto net = make_net();
  DistributedDataParallel ddp(net);
  std::weak_ptr<torch::optim::SGD> kept =
      apply_optimizer_in_backward<torch::optim::SGD>(ddp.reducer(), ddp.parameters(), 0.1);
  const at::Tensor before = net->first->weight.detach().clone();
  loss(ddp(data())).backward();
  EXPECT_FALSE(net->first->weight.equal(before));
  EXPECT_FALSE(kept.expired());
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, UsesGradientsThatAccumulatedUnderNoSync) {
  const auto net = make_net(), plain = make_net();
  DistributedDataParallel ddp(net), ordinary_ddp(plain);
  const auto optimizer =
      apply_optimizer_in_backward<torch::optim::SGD>(ddp.reducer(), ddp.parameters(), 0.01);
  torch::optim::SGD ordinary(ordinary_ddp.parameters(), 0.01);
  const auto accumulate = [](auto& its) {
    {
      const auto alone = its.no_sync();
      loss(its(data())).backward();
    }
    loss(its(data() + 1)).backward();
  };
  for (int step = 0; step < 3; ++step) {
    accumulate(ddp);
    expect_no_gradients(*net);
    ordinary.zero_grad();
    accumulate(ordinary_ddp);
    ordinary.step();
  }
  expect_same_values(*net, *plain);
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, ParametersThatAreNotListedKeepTheirReducedGradients) {
  for (const bool view : {false, true}) {
    const auto net = make_net(), plain = make_net();
    DistributedDataParallel ddp(net, {.gradient_as_bucket_view = view}), ordinary_ddp(plain);
    const auto optimizer = apply_optimizer_in_backward<torch::optim::SGD>(
        ddp.reducer(), Tensors{net->first->weight}, 0.01);
    for (int step = 0; step < 3; ++step) {  // The gradients accumulate.
      {
        const at::NoGradGuard no_grad;
        plain->first->weight.copy_(net->first->weight);
      }
      loss(ddp(data())).backward();
      loss(ordinary_ddp(data())).backward();
      EXPECT_FALSE(net->first->weight.grad().defined());
      for (const auto* const its : {"first.bias", "second.weight", "second.bias"}) {
        const at::Tensor gradient = net->named_parameters()[its].grad();
        ASSERT_TRUE(gradient.defined()) << its;
        EXPECT_TRUE(gradient.equal(plain->named_parameters()[its].grad())) << its;
      }
    }
  }
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, AJoinedRankUpdatesItsParameters) {
  const auto net = make_net();
  DistributedDataParallel ddp(net);
  const auto optimizer =
      apply_optimizer_in_backward<torch::optim::Adam>(ddp.reducer(), ddp.parameters(), 0.1);
  Join({ddp}).run([&] {
    for (int step = 0; step < 1 + 2 * get_rank(); ++step) loss(ddp(data() * step)).backward();
  });
  // Also the optimizer's state.
  for (const auto& one : net->named_parameters()) {
    expect_no_gradients(*net);
    const auto& state = static_cast<const torch::optim::AdamParamState&>(
        *optimizer->state()[one.value().unsafeGetTensorImpl()]);
    EXPECT_EQ(state.step(), 2 * get_world_size() - 1);
    expect_same_everywhere(state.exp_avg());
    expect_same_everywhere(one.value());
  }
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, RejectsParametersThatAreReducedLater) {
  const auto before = make_net(), after = make_net();
  const auto first = apply_optimizer_in_backward<torch::optim::SGD>(before->parameters(), 0.1);
  DistributedDataParallel ddp_of_before(before), ddp_of_after(after);
  const auto second = apply_optimizer_in_backward<torch::optim::SGD>(after->parameters(), 0.1);
  EXPECT_EQ(error_of([&] { loss(ddp_of_before(data())).backward(); }), kReducesLater);
  EXPECT_EQ(error_of([&] { loss(ddp_of_after(data())).backward(); }), kReducesLater);
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, RejectsWhatItCannotUpdate) {
  DistributedDataParallel ddp{TwoLayers()};
  const auto apply_to = [](auto& its, const Tensors& parameters) {
    return error_of([&] {
      static_cast<void>(
          apply_optimizer_in_backward<torch::optim::SGD>(its.reducer(), parameters, 0.1));
    });
  };
  EXPECT_EQ(apply_to(ddp, {ddp.parameters()[0], at::ones({2}).requires_grad_()}),
            "apply_optimizer_in_backward: parameter 1 of group 0 is not a parameter that the "
            "DistributedDataParallel reduces; list parameters of its module that require a "
            "gradient");
  EXPECT_EQ(apply_to(ddp, ddp.parameters()), "no error");
  EXPECT_THAT(apply_to(ddp, ddp.parameters()), HasSubstr("register_comm_hook"));
  DistributedDataParallel finds_unused(TwoLayers(), {.find_unused_parameters = true});
  EXPECT_EQ(apply_to(finds_unused, finds_unused.parameters()),
            "apply_optimizer_in_backward: the DistributedDataParallel has find_unused_parameters, "
            "and would update a parameter that no rank uses; expected a model that uses all "
            "parameters");
}

TEST_F(ApplyOptimizerInBackwardMultirankTest, BackwardThrowsTheErrorOfTheOptimizer) {
  struct Fails : torch::optim::SGD {
    using SGD::SGD;
    at::Tensor step(LossClosure /*closure*/) override { TORCH_CHECK(false, "no step today"); }
  };
  DistributedDataParallel ddp{TwoLayers()};
  const auto optimizer = apply_optimizer_in_backward<Fails>(ddp.reducer(), ddp.parameters(), 0.1);
  EXPECT_THAT(error_of([&] { loss(ddp(data())).backward(); }), HasSubstr("no step today"));
}

}  // namespace
}  // namespace distrun
