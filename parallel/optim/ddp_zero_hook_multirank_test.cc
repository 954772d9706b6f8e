// backward() with hook_with_zero_step() computes what backward() and step() compute.
#include <cstdint>
#include <sstream>
#include <string>

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/serialize.h>

#include "distrun/power_sgd_hook.h"
#include "parallel/optim/test/zero_hook_fixture.h"
#include "parallel/test/recomputed.h"

namespace distrun {
namespace {

using torch::optim::Adam;
using torch::optim::AdamOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGD;
using torch::optim::SGDOptions;
using ParamGroups = std::vector<OptimizerParamGroup>;

// Trains a network with hooks, and its copy with step().
struct Training {
  DdpOptions ddp = {.bucket_cap_mb = 0.0};  // A bucket for each parameter, after the first step.
  ZeroRedundancyOptions zero = {.overlap_with_ddp = true};
  std::function<CommHook()> hook = [] { return with_state(Group(), allreduce_hook); };
  std::function<ParamGroups(const torch::nn::Module&)> groups = [](const torch::nn::Module& net) {
    return ParamGroups{OptimizerParamGroup(net.parameters())};
  };
  int steps = 6;
};

// Keeps no activations of its layers.
struct CheckpointedImpl : torch::nn::Module {
  torch::nn::Linear repeated, last;
  int uses;
  explicit CheckpointedImpl(int uses_of_first)
      : repeated(register_module("repeated", torch::nn::Linear(3, 3))),
        last(register_module("last", torch::nn::Linear(3, 2))),
        uses(uses_of_first) {}
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = x.detach().requires_grad_();
    for (int i = 0; i < uses; ++i) y = of(repeated, y);
    return of(last, y);
  }
  static at::Tensor of(torch::nn::Linear layer, const at::Tensor& x) {
    return Recomputed::apply(x, Recomputed::Step([layer](const at::Tensor& its) mutable {
                               return layer->forward(its).sin();
                             }));
  }
};

class ZeroHookTrainingMultirankTest : public ZeroHookMultirankTest {
 protected:
  // `backward(ddp, step)` runs forward and backward.
  template <class Optimizer, class Net, class Defaults, class Backward>
  static void expect_as_plain(const Training& training, const Defaults& defaults,
                              const std::function<std::shared_ptr<Net>()>& make,
                              const Backward& backward, bool interleaved) {
    const auto net = make(), plain_net = make();
    DistributedDataParallel ddp(net, training.ddp), plain_ddp(plain_net, training.ddp);
    ZeroRedundancyOptimizer<Optimizer> zero(training.groups(*net), defaults, training.zero);
    Optimizer plain(training.groups(*plain_net), defaults);
    ddp.register_comm_hook(hook_of(interleaved, training.hook(), ddp.reducer(), zero));
    plain_ddp.register_comm_hook(training.hook());
    for (int step = 0; step < training.steps; ++step) {
      ddp.zero_grad();
      plain_ddp.zero_grad();
      backward(ddp, step);
      backward(plain_ddp, step);
      plain.step();
      expect_same_values(*net, *plain_net);
      if (HasFailure()) FAIL() << "step " << step << (interleaved ? ", interleaved" : "");
    }
  }
  // With both hooks, SGD and Adam.
  template <class Net, class Backward>
  static void expect_as_plain(const Training& training,
                              const std::function<std::shared_ptr<Net>()>& make,
                              const Backward& backward) {
    for (const bool interleaved : {false, true}) {
      expect_as_plain<SGD, Net>(training, SGDOptions(0.02).momentum(0.9).weight_decay(0.01), make,
                                backward, interleaved);
      expect_as_plain<Adam, Net>(training, AdamOptions(0.03).weight_decay(0.01), make, backward,
                                 interleaved);
    }
  }
  static void expect_as_plain(const Training& training) {
    expect_as_plain<MixedNetImpl>(
        training, [] { return make_net(); },
        [](auto& ddp, int step) { loss(ddp(batch(step))).backward(); });
  }
};

TEST_F(ZeroHookTrainingMultirankTest, UpdatesAsAStepAfterBackwardDoes) { expect_as_plain({}); }

TEST_F(ZeroHookTrainingMultirankTest, UpdatesLargeParameters) {
  expect_as_plain<torch::nn::LinearImpl>(
      {.steps = 4}, [] { return make_net<torch::nn::LinearImpl>(3, 90000); },
      [](auto& ddp, int step) { loss(ddp(batch(step))).backward(); });
}

TEST_F(ZeroHookTrainingMultirankTest, UpdatesFromGradientsThatAreViewsOfBuckets) {
  expect_as_plain({.ddp = {.bucket_cap_mb = 0.0, .gradient_as_bucket_view = true}});
}

TEST_F(ZeroHookTrainingMultirankTest, UpdatesParametersThatAreViewsOfBuckets) {
  expect_as_plain({.zero = {.parameters_as_bucket_view = true, .overlap_with_ddp = true}});
}

TEST_F(ZeroHookTrainingMultirankTest, TheGroupsMayBeDifferentObjects) {
  const std::vector<int> all = of_all_ranks([](int rank) { return rank; });
  expect_as_plain({.zero = {.process_group = new_group(all), .overlap_with_ddp = true}});
}

TEST_F(ZeroHookTrainingMultirankTest, WrapsAHookThatCompresses) {
  expect_as_plain({.hook = [] { return with_state(Group(), bf16_compress_hook); }});
  expect_as_plain(
      {.hook = [] { return with_state(Group(), fp16_compress_wrapper(allreduce_hook)); }});
}

// Its futures complete in the last bucket.
TEST_F(ZeroHookTrainingMultirankTest, WrapsPowerSGD) {
  const auto power_sgd = [] {
    const PowerSGDState state({.start_powerSGD_iter = 2, .min_compression_rate = 0.5});
    return with_state(state, powerSGD_hook);
  };
  expect_as_plain<TwoLayersImpl>(
      {.hook = power_sgd}, [] { return make_net<TwoLayersImpl>(); },
      [](auto& ddp, int step) { loss(ddp(batch(step))).backward(); });
}

// The first backward() has a bucket for each dtype. Weight decay would change the unused parameter.
TEST_F(ZeroHookTrainingMultirankTest, LeavesWhatAStaticGraphDoesNotUse) {
  const auto make = [] {
    auto net = make_net();
    net->unused.requires_grad_();
    return net;
  };
  for (const bool view : {false, true}) {
    expect_as_plain<MixedNetImpl>(
        {.ddp = {.bucket_cap_mb = 0.0, .gradient_as_bucket_view = view, .static_graph = true}},
        make, [](auto& ddp, int step) {
          loss(ddp(batch(step))).backward();
          EXPECT_TRUE(ddp.module()->unused.equal(at::ones({3})));
        });
  }
}

// Each layer has a backward() of its own, so buckets become ready in different ones. Only a static
// graph supports a layer that is used twice.
TEST_F(ZeroHookTrainingMultirankTest, UpdatesWithReentrantCheckpointing) {
  for (const bool is_static : {false, true}) {
    const int uses = is_static ? 2 : 1;
    expect_as_plain<CheckpointedImpl>(
        {.ddp = {.bucket_cap_mb = 0.0, .static_graph = is_static}},
        [uses] { return make_net<CheckpointedImpl>(uses); },
        [](auto& ddp, int step) { loss(ddp(batch(step))).backward(); });
  }
}

TEST_F(ZeroHookTrainingMultirankTest, LeavesWhatNoRankUses) {
  const int ranks = get_world_size();
  for (const bool skip : {false, true}) {
    // The Reducer skips buckets that no rank uses only if all ranks use the same.
    const auto backward = [ranks, skip](auto& ddp, int step) {
      const int first = skip || step % 2 == 1 ? 0 : get_rank();
      loss(ddp((first + step) % (ranks + 1))).backward();
    };
    expect_as_plain<PartsImpl>(
        {.ddp = {.bucket_cap_mb = 0.0,
                 .find_unused_parameters = true,
                 .skip_all_reduce_unused_params = skip}},
        [ranks] { return make_net<PartsImpl>(ranks); }, backward);
  }
}

TEST_F(ZeroHookTrainingMultirankTest, UsesGradientsThatAccumulatedUnderNoSync) {
  expect_as_plain<MixedNetImpl>(
      {}, [] { return make_net(); },
      [](auto& ddp, int step) {
        const at::Tensor before = ddp.module()->first->weight.detach().clone();
        {
          const auto alone = ddp.no_sync();
          loss(ddp(batch(step))).backward();
        }
        EXPECT_TRUE(ddp.module()->first->weight.equal(before));
        loss(ddp(batch(step + 100))).backward();
      });
}

TEST_F(ZeroHookTrainingMultirankTest, GroupsHaveTheirOptionsAndOtherParametersStay) {
  const std::function<std::shared_ptr<MixedNetImpl>()> make = [] {
    auto net = make_net();
    net->first->bias.requires_grad_(false);
    return net;
  };
  // Without second.weight.
  Training training;
  training.groups = [](const torch::nn::Module& net) {
    const auto all = net.named_parameters();
    ParamGroups groups;
    groups.emplace_back(Tensors{all["first.weight"], all["third.bias"], all["first.bias"]});
    groups.emplace_back(Tensors{all["third.weight"], all["second.bias"]});
    groups.back().set_options(std::make_unique<AdamOptions>(0.3));
    return groups;
  };
  for (const bool interleaved : {false, true}) {
    expect_as_plain<Adam, MixedNetImpl>(
        training, AdamOptions(0.01), make,
        [](auto& ddp, int step) { loss(ddp(batch(step))).backward(); }, interleaved);
  }
}

// The wrapped hook sees which parameters have changed when the hooks of buckets run.
TEST_F(ZeroHookMultirankTest, InterleavedUpdatesRunBeforeTheLastBucket) {
  for (const bool interleaved : {false, true}) {
    const auto net = make_net<TwoLayersImpl>();
    DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.0});
    ZeroRedundancyOptimizer<Adam> zero(ddp.parameters(), 0.1, {.overlap_with_ddp = true});
    const at::Tensor of_first_bucket = net->second->bias;
    at::Tensor before;
    std::vector<bool> has_changed;
    const auto watch = [&](c10d::GradBucket& bucket) {
      has_changed.push_back(!of_first_bucket.equal(before));
      return allreduce_hook(Group(), bucket);
    };
    ddp.register_comm_hook(hook_of(interleaved, watch, ddp.reducer(), zero));
    for (int step = 0; step < 2; ++step) {
      has_changed.clear();
      before = of_first_bucket.detach().clone();
      ddp.zero_grad();
      loss(ddp(batch(step))).backward();
      EXPECT_FALSE(of_first_bucket.equal(before));
    }
    ASSERT_EQ(has_changed.size(), 4);
    EXPECT_FALSE(has_changed[1]);
    if (zero.rank_of(of_first_bucket) != get_rank()) continue;
    EXPECT_EQ(has_changed[2], interleaved);
    EXPECT_EQ(has_changed[3], interleaved);
  }
}

TEST_F(ZeroHookMultirankTest, EachRankKeepsTheStateOfItsShareAndCountsSteps) {
  const auto net = make_net(), plain_net = make_net();
  DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.0}), plain_ddp(plain_net);
  ZeroRedundancyOptimizer<Adam> zero(ddp.parameters(), 0.1, {.overlap_with_ddp = true});
  Adam plain(plain_ddp.parameters(), 0.1);
  ddp.register_comm_hook(hook_with_zero_step_interleaved(mean(), ddp.reducer(), zero));
  const auto train = [&](auto& its_ddp, int first, int last, torch::optim::Optimizer* optimizer) {
    for (int step = first; step < last; ++step) {
      its_ddp.zero_grad();
      loss(its_ddp(batch(step))).backward();
      if (optimizer != nullptr) optimizer->step();
    }
  };
  train(ddp, 0, 4, nullptr);
  for (const at::Tensor& one : net->parameters()) {
    const auto state = zero.state().find(one.unsafeGetTensorImpl());
    const bool is_own = one.requires_grad() && zero.updates(one);
    ASSERT_EQ(state != zero.state().end(), is_own);
    if (!is_own) continue;
    EXPECT_EQ(static_cast<const torch::optim::AdamParamState&>(*state->second).step(), 4);
  }
  // The plain optimizer continues with the state.
  const auto whole = zero.consolidate_state_dict(0);
  std::ostringstream file;
  if (whole) torch::save(*whole, file);
  std::istringstream bytes(broadcast_bytes(file.str(), 0));
  Adam continued(net->parameters(), 0.7);
  torch::load(continued, bytes);
  DistributedDataParallel after(net);
  train(after, 4, 6, &continued);
  train(plain_ddp, 0, 6, &plain);
  // Buckets of other sizes can be summed in another order.
  for (std::size_t i = 0; i < net->parameters().size(); ++i) {
    EXPECT_TRUE(net->parameters()[i].allclose(plain_net->parameters()[i], 1e-5, 1e-6)) << i;
  }
}

TEST_F(ZeroHookMultirankTest, FollowsAScheduler) {
  const auto net = make_net(), plain_net = make_net();
  DistributedDataParallel ddp(net), plain_ddp(plain_net);
  ZeroRedundancyOptimizer<SGD> zero(ddp.parameters(), 0.1, {.overlap_with_ddp = true});
  SGD plain(plain_ddp.parameters(), 0.1);
  torch::optim::StepLR schedule(zero, 1, 0.5), plain_schedule(plain, 1, 0.5);
  ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), zero));
  plain_ddp.register_comm_hook(mean());
  for (int step = 0; step < 4; ++step) {
    zero.zero_grad();
    plain.zero_grad();
    loss(ddp(batch(step))).backward();
    loss(plain_ddp(batch(step))).backward();
    plain.step();
    schedule.step();
    plain_schedule.step();
    expect_same_values(*net, *plain_net);
  }
}

TEST_F(ZeroHookMultirankTest, StepEvaluatesTheClosureAndUpdatesNothing) {
  const auto net = make_net(), plain_net = make_net();
  DistributedDataParallel ddp(net), plain_ddp(plain_net);
  ZeroRedundancyOptimizer<Adam> zero(ddp.parameters(), 0.1, {.overlap_with_ddp = true});
  Adam plain(plain_ddp.parameters(), 0.1);
  ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), zero));
  plain_ddp.register_comm_hook(mean());
  for (int step = 0; step < 3; ++step) {
    const auto closure_of = [step](auto& its_ddp) {
      return [&its_ddp, step] {
        its_ddp.zero_grad();
        at::Tensor its_loss = loss(its_ddp(batch(step)));
        its_loss.backward();
        return its_loss;
      };
    };
    const at::NoGradGuard no_grad;  // The closure computes gradients even so.
    const at::Tensor its_loss = zero.step(closure_of(ddp));
    EXPECT_TRUE(its_loss.equal(plain.step(closure_of(plain_ddp))));
    EXPECT_FALSE(zero.step().defined());
    expect_same_values(*net, *plain_net);
  }
}

TEST_F(ZeroHookMultirankTest, UpdatesTheObjectToWhichAnOptimizerWasMoved) {
  const auto net = make_net(), plain_net = make_net();
  DistributedDataParallel ddp(net), plain_ddp(plain_net);
  auto moved_from = std::make_unique<ZeroRedundancyOptimizer<Adam>>(
      ddp.parameters(), 0.1, ZeroRedundancyOptions{.overlap_with_ddp = true});
  Adam plain(plain_ddp.parameters(), 0.1);
  ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), *moved_from));
  plain_ddp.register_comm_hook(mean());
  ZeroRedundancyOptimizer<Adam> zero(std::move(*moved_from));
  moved_from.reset();
  for (int step = 0; step < 3; ++step) {
    zero.zero_grad();
    plain.zero_grad();
    loss(ddp(batch(step))).backward();
    loss(plain_ddp(batch(step))).backward();
    plain.step();
  }
  expect_same_values(*net, *plain_net);
  std::int64_t own = 0;
  for (const at::Tensor& one : net->parameters()) {
    if (one.requires_grad() && zero.updates(one)) ++own;
  }
  EXPECT_EQ(zero.state().size(), own);
}

}  // namespace
}  // namespace distrun
