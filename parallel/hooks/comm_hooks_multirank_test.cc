#include <ATen/ops/full.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/modules/embedding.h>

#include "distrun/comm_hooks.h"
#include "distrun/post_local_sgd_hook.h"
#include "distrun/power_sgd_hook.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommHooksMultirankTest : public DdpMultirankTest {
 protected:
  // The gradients of one backward(), as one tensor.
  static at::Tensor gradients_of(const CommHook& hook, const Group& group = {}) {
    torch::manual_seed(5);
    DistributedDataParallel ddp(TwoLayers(), {.process_group = group, .bucket_cap_mb = 0});
    ddp.register_comm_hook(hook);
    for (int step = 0; step < 2; ++step) {
      ddp.zero_grad();
      loss(ddp(data())).backward();
    }
    Tensors flat;
    for (const at::Tensor& one : ddp.parameters()) flat.push_back(one.grad().view({-1}));
    return at::cat(flat);
  }

  template <class Hook>
  static at::Tensor gradients_of(Hook hook, const Group& group = {}) requires
      StatefulCommHookFunction<Hook, Group> {
    return gradients_of(with_state(group, hook), group);
  }

  static at::Tensor own_gradients() { return gradients_of(CommHook(noop_hook)); }

  static at::Tensor mean_in(at::ScalarType dtype) { return mean_in(dtype, own_gradients(), {}); }
  static at::Tensor mean_in(at::ScalarType dtype, const at::Tensor& own, const Group& group) {
    const at::Tensor sum = own.to(dtype).div_(get_world_size(group));
    all_reduce(sum, ReduceOp::SUM, {.group = group});
    return sum.to(at::kFloat);
  }
};

TEST_F(CommHooksMultirankTest, LeavesTheGradientsOfEachRankWithNoopHook) {
  DistributedDataParallel ddp{TwoLayers()};
  ddp.register_comm_hook(noop_hook);
  const auto alone = std::make_shared<TwoLayersImpl>();
  {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < 4; ++i) alone->parameters()[i].copy_(ddp.parameters()[i]);
  }
  loss(ddp(data())).backward();
  loss(alone->forward(data())).backward();
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(ddp.parameters()[i].grad().equal(alone->parameters()[i].grad())) << i;
  }
}

TEST_F(CommHooksMultirankTest, ComputesTheMean) {
  EXPECT_TRUE(gradients_of(allreduce_hook).allclose(mean_in(at::kFloat), 1e-6, 1e-6));
}

TEST_F(CommHooksMultirankTest, ComputesTheMeanInHalfAndBfloat16) {
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const at::Tensor mean =
        dtype == at::kHalf ? gradients_of(fp16_compress_hook) : gradients_of(bf16_compress_hook);
    EXPECT_TRUE(mean.equal(mean.to(dtype).to(at::kFloat))) << dtype;
    // Buckets of other sizes are summed in another order.
    const double close = dtype == at::kHalf ? 2e-3 : 2e-2;
    EXPECT_TRUE(mean.allclose(mean_in(dtype), close, close)) << dtype;
    EXPECT_FALSE(mean.equal(mean_in(at::kFloat))) << dtype;
  }
}

TEST_F(CommHooksMultirankTest, WrapsHooksWithAndWithoutAState) {
  EXPECT_TRUE(
      gradients_of(fp16_compress_wrapper(allreduce_hook)).equal(gradients_of(fp16_compress_hook)));
  EXPECT_TRUE(
      gradients_of(bf16_compress_wrapper(allreduce_hook)).equal(gradients_of(bf16_compress_hook)));
  const at::Tensor own = own_gradients();
  EXPECT_TRUE(gradients_of(CommHook(fp16_compress_wrapper(noop_hook)))
                  .equal(own.to(at::kHalf).to(at::kFloat)));
  // A future can contain a list of one tensor, as that of a Work.
  const auto sum = [](c10d::GradBucket& bucket) {
    EXPECT_EQ(bucket.getBuffer().scalar_type(), at::kBFloat16);
    EXPECT_EQ(bucket.getGradients().front().scalar_type(), at::kBFloat16);
    return all_reduce(bucket.getBuffer(), ReduceOp::SUM, {.async_op = true}).get_future();
  };
  const at::Tensor expected = own.to(at::kBFloat16);
  all_reduce(expected);
  EXPECT_TRUE(gradients_of(CommHook(bf16_compress_wrapper(sum)))
                  .allclose(expected.to(at::kFloat), 2e-2, 2e-2));
}

TEST_F(CommHooksMultirankTest, ReducesInASubGroup) {
  const auto alone = new_subgroups(1).own.value();
  const at::Tensor own = own_gradients();
  EXPECT_TRUE(gradients_of(allreduce_hook, alone).equal(own));
  std::vector<int> ranks = {0};
  if (get_world_size() > 1) ranks.push_back(1);
  const Group pair = new_group(ranks);
  if (!pair.is_member()) return;
  EXPECT_TRUE(
      gradients_of(fp16_compress_hook, pair).allclose(mean_in(at::kHalf, own, pair), 2e-3, 2e-3));
}

TEST_F(CommHooksMultirankTest, CopiesTheStateOnceAndKeepsItBetweenBuckets) {
  DistributedDataParallel ddp{TwoLayers()};
  std::vector<int> seen;
  const auto hook = [&](int& count, c10d::GradBucket& bucket) {
    seen.push_back(count++);
    return noop_hook(bucket);
  };
  ddp.register_comm_hook(3, hook, "counts");
  EXPECT_EQ(ddp.get_ddp_logging_data().strs_map.at("comm_hook"), "counts");
  for (int step = 0; step < 2; ++step) loss(ddp(data())).backward();
  EXPECT_THAT(seen, ::testing::ElementsAre(3, 4));
}

TEST_F(CommHooksMultirankTest, RejectsAGroupWithoutThisRank) {
  if (get_world_size() == 1) return;
  const Group first = new_group({0});
  if (get_rank() == 0) return;
  c10d::GradBucket bucket(0, 1, at::ones({2}), {0}, {2}, {}, {}, std::nullopt);
  EXPECT_THAT(error_of([&] { bf16_compress_hook(first, bucket); }),
              StartsWith("bf16_compress_hook on rank " + std::to_string(get_rank()) +
                         ": this rank is not in the hook's group; pass the process_group of the "
                         "DistributedDataParallel as the hook's group"));
}

TEST_F(CommHooksMultirankTest, NamesTheWrapperOfAHookWithoutAFuture) {
  const auto empty = [](c10d::GradBucket&) { return Future(); };
  EXPECT_THAT(
      error_of([&] { gradients_of(CommHook(fp16_compress_wrapper(empty))); }),
      HasSubstr("compress wrapper: the wrapped hook has returned a null Future; expected one "
                "that holds the gradients"));
}

TEST_F(CommHooksMultirankTest, ReportsALostPeerInBackward) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const PowerSGDState power({.start_powerSGD_iter = 2});
  const PostLocalSGDState local({.subgroup = Group(), .start_localSGD_iter = 9});
  const std::vector<std::pair<std::string, CommHook>> hooks = {
      {"allreduce_hook", with_state(Group(), allreduce_hook)},
      {"fp16_compress_hook", with_state(Group(), fp16_compress_hook)},
      {"allreduce_hook", with_state(Group(), bf16_compress_wrapper(allreduce_hook))},
      {"powerSGD_hook", with_state(power, powerSGD_hook)},
      {"post_localSGD_hook", with_state(local, post_localSGD_hook)}};
  for (std::size_t i = 0; i < hooks.size(); ++i) {
    const auto& [name, hook] = hooks[i];
    SCOPED_TRACE(name);
    {
      DistributedDataParallel ddp{TwoLayers()};
      ddp.register_comm_hook(hook);
      rendezvous_at("constructed " + std::to_string(i));
      if (get_rank() == get_world_size() - 1) {
        abort_process_group();
      } else {
        const std::string text =
            MultirankTest::error_of<c10::DistBackendError>([&] { loss(ddp(data())).backward(); });
        EXPECT_THAT(text, StartsWith(name + " on rank " + std::to_string(get_rank()) + " of "));
        EXPECT_THAT(text, ContainsRegex(lost_peer()));
        EXPECT_THAT(text,
                    HasSubstr("; it reduced bucket 0 with 4 gradients, the first of sizes ["));
        EXPECT_THAT(text, HasSubstr("; if ranks have different numbers of inputs, train in a Join "
                                    "(distrun/join.h)"));
        abort_process_group();
      }
    }
    destroy_process_group();
    init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
    barrier();
  }
}

TEST_F(CommHooksMultirankTest, HooksThatCompressRejectSparseGradients) {
  PowerSGDState state({.start_powerSGD_iter = 2});
  const std::vector<std::pair<std::string, CommHook>> hooks = {
      {"fp16_compress_hook", with_state(Group(), fp16_compress_hook)},
      {"compress wrapper", with_state(Group(), bf16_compress_wrapper(allreduce_hook))},
      {"powerSGD_hook", with_state(state, powerSGD_hook)},
      {"batched_powerSGD_hook", with_state(state, batched_powerSGD_hook)}};
  for (const auto& [name, hook] : hooks) {
    DistributedDataParallel ddp(
        torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 2).sparse(true)));
    ddp.register_comm_hook(hook);
    const at::Tensor sum = ddp(at::full({1}, get_rank(), at::kLong)).sum();
    EXPECT_THAT(error_of([&] { sum.backward(); }),
                StartsWith(name + " on rank " + std::to_string(get_rank()) +
                           ": the bucket has sparse gradients; use allreduce_hook, or a layer "
                           "without sparse gradients"));
  }
}

}  // namespace
}  // namespace distrun
