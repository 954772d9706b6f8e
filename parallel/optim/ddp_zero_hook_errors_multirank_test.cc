// Errors of hook_with_zero_step().
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/modules/embedding.h>

#include "distrun/join.h"
#include "parallel/optim/test/zero_hook_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGD;

enum class Fails { kNever, kWithError, kWithNumber };

// An SGD whose step() can fail.
struct FailingSGD : SGD {
  using SGD::SGD;
  static inline Fails fails = Fails::kNever;
  at::Tensor step(LossClosure closure) override {
    if (fails == Fails::kWithError) throw std::runtime_error("no step today");
    if (fails == Fails::kWithNumber) throw 7;
    return SGD::step(closure);
  }
};
using ZeroSGD = ZeroRedundancyOptimizer<SGD>;
using ZeroFailing = ZeroRedundancyOptimizer<FailingSGD>;

class ZeroHookErrorsMultirankTest : public ZeroHookMultirankTest {
 protected:
  static inline const ZeroRedundancyOptions kOverlaps = {.overlap_with_ddp = true};
  static int last_rank() { return get_world_size() - 1; }
  static bool is_last() { return get_rank() == last_rank(); }
  static std::string on_last() { return " (on rank " + std::to_string(last_rank()) + ")"; }
  static std::string text_on_each(const std::string& error) {
    return is_last() ? error
                     : "ZeroRedundancyOptimizer: step() of rank " + std::to_string(last_rank()) +
                           " failed: " + error;
  }
  // In every second backward(), the update of the last rank fails.
  static void expect_errors_of_all_ranks(const DdpOptions& options, bool interleaved) {
    const auto net = make_net<TwoLayersImpl>();
    DistributedDataParallel ddp(net, options);
    ZeroFailing zero(ddp.parameters(), 0.01, kOverlaps);
    ddp.register_comm_hook(hook_of(interleaved, mean(), ddp.reducer(), zero));
    for (int step = 0; step < 6; ++step) {
      const bool fails = step % 2 == 0;
      FailingSGD::fails = fails && is_last() ? Fails::kWithError : Fails::kNever;
      Tensors before;
      for (const at::Tensor& one : net->parameters()) before.push_back(one.detach().clone());
      const std::string error = error_of([&] {
        ddp.zero_grad();
        loss(ddp(batch(step))).backward();
      });
      EXPECT_EQ(error, fails ? text_on_each("no step today") : "no error");
      for (std::size_t i = 0; i < before.size(); ++i) {
        const at::Tensor one = net->parameters()[i];
        expect_same_everywhere(one);
        EXPECT_EQ(one.equal(before[i]), fails && zero.rank_of(one) == last_rank()) << i;
      }
    }
    FailingSGD::fails = Fails::kNever;
  }
};

TEST_F(ZeroHookErrorsMultirankTest, AFailedUpdateOfOneRankIsAnErrorOfAllRanks) {
  for (const bool interleaved : {false, true}) {
    expect_errors_of_all_ranks({.bucket_cap_mb = 0.0}, interleaved);
    expect_errors_of_all_ranks({.bucket_cap_mb = 0.0, .gradient_as_bucket_view = true},
                               interleaved);
    expect_errors_of_all_ranks({.static_graph = true}, interleaved);
    expect_errors_of_all_ranks({.find_unused_parameters = true}, interleaved);
  }
}

TEST_F(ZeroHookErrorsMultirankTest, EveryRankKnowsOfAnExceptionOfAnyType) {
  const std::string any = "an exception that does not derive from std::exception";
  for (const bool finds_unused : {false, true}) {
    DistributedDataParallel ddp(make_net<TwoLayersImpl>(),
                                {.find_unused_parameters = finds_unused});
    ZeroFailing zero(ddp.parameters(), 0.01, kOverlaps);
    ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), zero));
    FailingSGD::fails = is_last() ? Fails::kWithNumber : Fails::kNever;
    const std::string error = error_of([&] { loss(ddp(batch(0))).backward(); });
    FailingSGD::fails = Fails::kNever;
    EXPECT_EQ(error, is_last() ? "hook_with_zero_step: the optimizer threw an exception that does "
                                 "not derive from std::exception"
                               : text_on_each(any));
  }
}

TEST_F(ZeroHookErrorsMultirankTest, AHookThatThrowsEndsTheBackward) {
  for (const bool interleaved : {false, true}) {
    const auto net = make_net<TwoLayersImpl>();
    ZeroSGD zero(net->parameters(), 0.01, kOverlaps);
    {
      DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.0});
      int buckets = 0;
      const auto throws_in_third = [&buckets](c10d::GradBucket& bucket) {
        // The first backward has one bucket.
        if (++buckets == 4) throw std::runtime_error("no hook today");
        return allreduce_hook(Group(), bucket);
      };
      ddp.register_comm_hook(hook_of(interleaved, throws_in_third, ddp.reducer(), zero));
      loss(ddp(batch(0))).backward();
      EXPECT_THAT(error_of([&] { loss(ddp(batch(1))).backward(); }), HasSubstr("no hook today"));
    }
    // Another DistributedDataParallel trains with the same optimizer.
    const auto plain_net = make_net<TwoLayersImpl>();
    {
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < net->parameters().size(); ++i) {
        broadcast(net->parameters()[i].detach(), 0);
        plain_net->parameters()[i].copy_(net->parameters()[i]);
      }
    }
    SGD plain(plain_net->parameters(), 0.01);
    DistributedDataParallel next(net), plain_ddp(plain_net);
    next.register_comm_hook(hook_of(interleaved, mean(), next.reducer(), zero));
    plain_ddp.register_comm_hook(mean());
    for (int step = 2; step < 4; ++step) {
      next.zero_grad();
      plain_ddp.zero_grad();
      loss(next(batch(step))).backward();
      loss(plain_ddp(batch(step))).backward();
      plain.step();
    }
    expect_same_values(*net, *plain_net);
  }
}

// The last rank leaves in the middle of its third backward().
TEST_F(ZeroHookErrorsMultirankTest, ALostPeerEndsTheBackwardOfTheOthers) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  for (const bool interleaved : {false, true}) {
    if (!is_initialized()) MultirankTest::SetUp();
    {
      DistributedDataParallel ddp(make_net<TwoLayersImpl>(), {.bucket_cap_mb = 0.0});
      ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
      int buckets = 0;
      const auto leaves = [&buckets](c10d::GradBucket& bucket) {
        if (++buckets == 1 + 4 + 3 && is_last()) {
          abort_process_group();
          throw std::runtime_error("left");
        }
        return allreduce_hook(Group(), bucket);
      };
      ddp.register_comm_hook(hook_of(interleaved, leaves, ddp.reducer(), zero));
      for (int step = 0; step < 2; ++step) loss(ddp(batch(step))).backward();
      // Gloo can miss that a peer has left. The next init_process_group() waits for this rank.
      set_timeout(std::chrono::seconds(5));
      const std::string error = error_of([&] { loss(ddp(batch(2))).backward(); });
      EXPECT_NE(error, "no error");
      EXPECT_TRUE(!is_last() || buckets == 8) << buckets;
    }
    if (!is_last()) abort_process_group();  // Ends the collectives of the ranks that are left.
    destroy_process_group();
  }
}

TEST_F(ZeroHookErrorsMultirankTest, TheGroupCanBeDestroyedAfterAHookThatThrows) {
  {
    DistributedDataParallel ddp(make_net<TwoLayersImpl>(), {.bucket_cap_mb = 0.0});
    ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
    int buckets = 0;
    const auto throws_in_third = [&buckets](c10d::GradBucket& bucket) {
      if (++buckets == 4) throw std::runtime_error("no hook today");
      return allreduce_hook(Group(), bucket);
    };
    ddp.register_comm_hook(hook_with_zero_step_interleaved(throws_in_third, ddp.reducer(), zero));
    loss(ddp(batch(0))).backward();
    EXPECT_THAT(error_of([&] { loss(ddp(batch(1))).backward(); }), HasSubstr("no hook today"));
  }
  barrier();
  destroy_process_group();
}

TEST_F(ZeroHookErrorsMultirankTest, EveryRankRejectsWhatOneRankHasWrong) {
  const std::string start = "hook_with_zero_step: ";
  DistributedDataParallel ddp(make_net<TwoLayersImpl>());
  ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
  EXPECT_EQ(
      error_of([&] { hook_with_zero_step(is_last() ? CommHook() : mean(), ddp.reducer(), zero); }),
      start + "the hook is empty; pass one, such as allreduce_hook" + on_last());
  Tensors parameters = ddp.parameters();
  if (is_last()) parameters[3] = at::ones({2}).requires_grad_();
  ZeroSGD has_another(parameters, 0.01, kOverlaps);
  EXPECT_EQ(error_of([&] { hook_with_zero_step(mean(), ddp.reducer(), has_another); }),
            start +
                "parameter 3 of group 0 is not a parameter that the DistributedDataParallel "
                "reduces; list parameters of its module" +
                on_last());
}

TEST_F(ZeroHookErrorsMultirankTest, RejectsOptionsThatDoNotFit) {
  const std::string start = "hook_with_zero_step: ", end = " (on rank 0)";
  const auto error_with = [](auto& ddp, const ZeroRedundancyOptions& options) {
    ZeroSGD zero(ddp.parameters(), 0.01, options);
    return error_of([&] { hook_with_zero_step(mean(), ddp.reducer(), zero); });
  };
  DistributedDataParallel ddp(make_net<TwoLayersImpl>());
  EXPECT_EQ(error_with(ddp, {}),
            start +
                "the ZeroRedundancyOptimizer was constructed without overlap_with_ddp; set the "
                "option" +
                end);
  DistributedDataParallel mixed(
      make_net<TwoLayersImpl>(),
      {.mixed_precision = {.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat}});
  EXPECT_EQ(error_with(mixed, kOverlaps),
            start +
                "the DistributedDataParallel has mixed_precision with a param_dtype, which its "
                "parameters have until backward() ends; call step() without overlap_with_ddp "
                "instead" +
                end);
  DistributedDataParallel converting(make_net<TwoLayersImpl>(),
                                     {.mixed_precision = {.reduce_dtype = at::kBFloat16}});
  EXPECT_EQ(error_with(converting, kOverlaps),
            start +
                "the DistributedDataParallel has mixed_precision that converts gradients, which a "
                "hook cannot reduce; set its reduce_dtype to the parameters' dtype" +
                end);
  DistributedDataParallel sparse(
      torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true)));
  EXPECT_EQ(error_with(sparse, kOverlaps),
            start + "the gradient of the parameter 'weight' is sparse; use dense gradients" + end);
}

TEST_F(ZeroHookErrorsMultirankTest, RejectsWhatDiffersBetweenRanks) {
  if (get_world_size() == 1) GTEST_SKIP() << "one rank differs from no other";
  DistributedDataParallel ddp(make_net<TwoLayersImpl>());
  ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
  EXPECT_EQ(error_of([&] { hook_of(get_rank() == 1, mean(), ddp.reducer(), zero); }),
            "hook_with_zero_step: rank 1 has hook_with_zero_step_interleaved, and rank 0 has "
            "hook_with_zero_step; all ranks must use the same hook, and have the same parameters "
            "in the same order");
  // Parameters of the same sizes, in another order.
  struct EqualImpl : torch::nn::Module {
    at::Tensor a = register_parameter("a", at::ones({3}));
    at::Tensor b = register_parameter("b", at::ones({3}));
    at::Tensor forward(const at::Tensor& x) { return a * b * x; }
  };
  const auto equal = std::make_shared<EqualImpl>();
  DistributedDataParallel of_equal(equal);
  ZeroSGD swapped(get_rank() == 1 ? Tensors{equal->b, equal->a} : Tensors{equal->a, equal->b}, 0.01,
                  kOverlaps);
  EXPECT_THAT(error_of([&] { hook_with_zero_step(mean(), of_equal.reducer(), swapped); }),
              StartsWith("hook_with_zero_step: rank 1 has the parameter 'a' on group rank 1, and "
                         "rank 0 has the parameter 'a' on group rank 0; "));
  ZeroSGD of_one(Tensors{get_rank() == 1 ? equal->b : equal->a}, 0.01, kOverlaps);
  EXPECT_THAT(error_of([&] { hook_with_zero_step(mean(), of_equal.reducer(), of_one); }),
              StartsWith("hook_with_zero_step: rank 1 has the parameter 'a' without optimizer, and "
                         "rank 0 has the parameter 'a' on group rank 0; "));
  const Group last = new_group({last_rank()});
  if (!is_last()) return;
  ZeroSGD alone(ddp.parameters(), 0.01, {.process_group = last, .overlap_with_ddp = true});
  const std::string error = error_of([&] { hook_with_zero_step(mean(), ddp.reducer(), alone); });
  EXPECT_THAT(error,
              HasSubstr("the ZeroRedundancyOptimizer has ranks " + std::to_string(last_rank()) +
                        ", and the DistributedDataParallel has ranks 0, 1"));
  EXPECT_THAT(error, HasSubstr("; use the same process_group (on rank "));
}

TEST_F(ZeroHookErrorsMultirankTest, RejectsGroupsThatAreAddedLater) {
  for (const bool finds_unused : {false, true}) {
    DistributedDataParallel ddp(make_net<TwoLayersImpl>(),
                                {.find_unused_parameters = finds_unused});
    const Tensors all = ddp.parameters();
    ZeroSGD zero(Tensors{all[0], all[1]}, 0.01, kOverlaps);
    ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), zero));
    const OptimizerParamGroup group(Tensors{all[2]});
    EXPECT_EQ(error_of([&] { zero.add_param_group(group); }),
              "ZeroRedundancyOptimizer: add_param_group() after hook_with_zero_step(); add groups "
              "before");
    static_cast<torch::optim::Optimizer&>(zero).add_param_group(group);
    const std::string error =
        "ZeroRedundancyOptimizer: a group was added after hook_with_zero_step(); add groups before";
    EXPECT_EQ(error_of([&] { zero.consolidate_state_dict(); }), error);
    EXPECT_THAT(error_of([&] { loss(ddp(batch(0))).backward(); }), HasSubstr(error));
  }
}

TEST_F(ZeroHookErrorsMultirankTest, AnOptimizerThatUpdatesNothingIsAnError) {
  DistributedDataParallel ddp(make_net<TwoLayersImpl>());
  auto zero = std::make_unique<ZeroSGD>(ddp.parameters(), 0.01, kOverlaps);
  EXPECT_EQ(error_of([&] { zero->step(); }),
            "ZeroRedundancyOptimizer: step() does nothing with overlap_with_ddp, and no hook lets "
            "backward() update the parameters; register hook_with_zero_step() with the "
            "DistributedDataParallel");
  ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), *zero));
  {
    const auto alone = ddp.no_sync();
    loss(ddp(batch(0))).backward();
    EXPECT_EQ(error_of([&] { zero->step(); }), "no error");
  }
  loss(ddp(batch(0))).backward();
  zero->step();
  zero.reset();
  EXPECT_THAT(error_of([&] { loss(ddp(batch(1))).backward(); }),
              HasSubstr("hook_with_zero_step: the ZeroRedundancyOptimizer was destroyed; keep it "
                        "as long as the DistributedDataParallel trains"));
}

TEST_F(ZeroHookErrorsMultirankTest, AHookThatWasNotRegisteredChangesNothing) {
  const auto net = make_net<TwoLayersImpl>();
  DistributedDataParallel ddp(net);
  const Tensors all = ddp.parameters();
  ZeroSGD zero(Tensors{all[0], all[1]}, 0.01, kOverlaps);
  {
    const CommHook first = hook_with_zero_step(mean(), ddp.reducer(), zero);
    { const CommHook second = hook_with_zero_step(mean(), ddp.reducer(), zero); }
    EXPECT_THAT(error_of([&] { zero.add_param_group(OptimizerParamGroup(Tensors{all[2]})); }),
                HasSubstr("after hook_with_zero_step()"));
    EXPECT_THAT(error_of([&] { ddp.reducer().join_hook({}); }), HasSubstr("cannot take part"));
  }
  EXPECT_EQ(error_of([&] { ddp.reducer().join_hook({}); }), "no error");
  zero.add_param_group(OptimizerParamGroup(Tensors{all[2], all[3]}));
  ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), zero));
  const at::Tensor before = all[3].detach().clone();
  loss(ddp(batch(0))).backward();
  EXPECT_FALSE(all[3].equal(before));
  expect_same_everywhere(all[3]);
}

TEST_F(ZeroHookErrorsMultirankTest, CannotJoin) {
  DistributedDataParallel ddp(make_net<TwoLayersImpl>());
  ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
  EXPECT_EQ(error_of([&] { zero.join_hook({}); }),
            "join: a ZeroRedundancyOptimizer with overlap_with_ddp cannot take part, because a "
            "joined rank has no backward(); leave the option out, and call step()");
  ddp.register_comm_hook(hook_with_zero_step(mean(), ddp.reducer(), zero));
  EXPECT_EQ(error_of([&] { ddp.reducer().join_hook({}); }),
            "join: a DistributedDataParallel with hook_with_zero_step() cannot take part, because "
            "a joined rank has no backward(); use a ZeroRedundancyOptimizer without "
            "overlap_with_ddp");
}

// With one bucket, and with one for each parameter.
TEST_F(ZeroHookErrorsMultirankTest, AMissingGradientIsAnErrorOfTheNextForward) {
  for (const DdpOptions& options : {DdpOptions(), DdpOptions{.bucket_cap_mb = 0.0}}) {
    for (const bool interleaved : {false, true}) {
      DistributedDataParallel ddp(make_net<PartsImpl>(1), options);
      ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
      ddp.register_comm_hook(hook_of(interleaved, mean(), ddp.reducer(), zero));
      // Autograd runs the last operator first, so the bucket of part0 will be the first one.
      const at::Tensor of_second = ddp.module()->parts[1].sum();
      (of_second + ddp(0)).backward();
      ddp(0).backward();
      EXPECT_THAT(error_of([&] { ddp(0); }),
                  HasSubstr("the last backward() computed no gradient of part1: "));
    }
  }
}

// Autograd runs the last operator first, so `first` is updated before `last` needs its old value.
TEST_F(ZeroHookErrorsMultirankTest, ABackwardThatNeedsAnOldValueThrowsOnEveryRank) {
  struct OldValueImpl : torch::nn::Module {
    at::Tensor first = register_parameter("first", at::ones({3}));
    at::Tensor second = register_parameter("second", at::ones({3}));
    at::Tensor last = register_parameter("last", at::ones({3}));
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor needs_old = last * first.detach();
      const at::Tensor of_second = second * x;
      return needs_old + of_second + first * x;
    }
  };
  const auto net = std::make_shared<OldValueImpl>();
  DistributedDataParallel ddp(net, {.bucket_cap_mb = 0.0});
  ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
  ddp.register_comm_hook(hook_with_zero_step_interleaved(mean(), ddp.reducer(), zero));
  loss(ddp(batch(0))).backward();  // One bucket.
  EXPECT_THAT(error_of([&] { loss(ddp(batch(1))).backward(); }),
              HasSubstr("modified by an inplace operation"));
}

TEST_F(ZeroHookErrorsMultirankTest, RejectsAHookOfAnotherDistributedDataParallel) {
  const auto net = make_net<PartsImpl>(1);
  DistributedDataParallel all(net), other(make_net<PartsImpl>(1));
  DistributedDataParallel some(net, {.parameters_to_ignore = {"part1"}});
  for (auto* const ddp : {&other, &some}) {
    ZeroSGD zero(all.parameters(), 0.01, kOverlaps);
    ddp->register_comm_hook(hook_with_zero_step(mean(), all.reducer(), zero));
    const at::Tensor of_second = ddp->module()->parts[1].sum();
    EXPECT_THAT(error_of([&] { (of_second + (*ddp)(0)).backward(); }),
                HasSubstr("hook_with_zero_step: the hook was made for another "
                          "DistributedDataParallel; pass the reducer() of the one that registers "
                          "it"));
  }
}

// Completes the futures of all buckets in the last one.
TEST_F(ZeroHookErrorsMultirankTest, AFutureThatWaitsForLaterBucketsIsAnErrorAfterTheTimeout) {
  const Group group = new_group();
  DistributedDataParallel ddp(make_net<TwoLayersImpl>(),
                              {.process_group = group, .bucket_cap_mb = 0.0});
  ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
  std::vector<std::pair<Future, at::Tensor>> open;
  const auto late = [&open](c10d::GradBucket& bucket) {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
    open.emplace_back(future, bucket.getBuffer());
    if (bucket.isLast()) {
      for (auto& [its, buffer] : open) its->markCompleted(buffer);
      open.clear();
    }
    return Future(future);
  };
  ddp.register_comm_hook(hook_with_zero_step_interleaved(late, ddp.reducer(), zero));
  loss(ddp(batch(0))).backward();  // One bucket.
  set_timeout(std::chrono::milliseconds(300), group);
  EXPECT_THAT(error_of([&] { loss(ddp(batch(1))).backward(); }),
              HasSubstr("hook_with_zero_step: the future of a bucket is not complete after "
                        "3600 ms, much longer than the timeout of the group; a hook that completes "
                        "it in the last bucket only cannot be interleaved"));
}

TEST_F(ZeroHookErrorsMultirankTest, AFutureThatIsNeverCompleteIsAnErrorAfterTheTimeout) {
  const Group group = new_group();
  DistributedDataParallel ddp(make_net<TwoLayersImpl>(), {.process_group = group});
  ZeroSGD zero(ddp.parameters(), 0.01, kOverlaps);
  const auto never = [](c10d::GradBucket& /*bucket*/) {
    return c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
  };
  ddp.register_comm_hook(hook_with_zero_step(never, ddp.reducer(), zero));
  set_timeout(std::chrono::milliseconds(300), group);
  EXPECT_THAT(error_of([&] { loss(ddp(batch(0))).backward(); }),
              HasSubstr("hook_with_zero_step: the future of a bucket is not complete after "
                        "3600 ms, much longer than the timeout of the group; the hook must "
                        "complete every future, with an error if it fails"));
}

// The last rank does not take part in the reduction of the first bucket.
TEST_F(ZeroHookErrorsMultirankTest, ACollectiveThatTimesOutIsTheErrorOfBackward) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  for (const bool interleaved : {false, true}) {
    const Group group = new_group();
    DistributedDataParallel ddp(make_net<TwoLayersImpl>(),
                                {.process_group = group, .bucket_cap_mb = 0.0});
    ZeroSGD zero(ddp.parameters(), 0.01, {.process_group = group, .overlap_with_ddp = true});
    int buckets = 0;
    const auto stops = [&](c10d::GradBucket& bucket) {
      if (++buckets == 2 && is_last()) throw std::runtime_error("stopped");
      return allreduce_hook(group, bucket);
    };
    ddp.register_comm_hook(hook_of(interleaved, stops, ddp.reducer(), zero));
    loss(ddp(batch(0))).backward();  // One bucket.
    set_timeout(std::chrono::milliseconds(300), group);
    const std::string error = error_of([&] { loss(ddp(batch(1))).backward(); });
    EXPECT_THAT(error, HasSubstr(is_last() ? "stopped" : "allreduce_hook on rank"));
    barrier();
  }
}

}  // namespace
}  // namespace distrun
