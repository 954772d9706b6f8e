#include <torch/csrc/distributed/c10d/comm.hpp>

#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DdpHooksMultirankTest : public DdpMultirankTest {
 protected:
  static std::string error_with(const CommHook& hook) {
    DistributedDataParallel ddp{TwoLayers()};
    ddp.register_comm_hook(hook, "odd");
    return error_of([&] { loss(ddp(data())).backward(); });
  }

  static Future future_of(const c10::TypePtr& type, const c10::IValue& value) {
    auto future = c10::make_intrusive<c10::ivalue::Future>(type);
    future->markCompleted(value);
    return future;
  }
};

TEST_F(DdpHooksMultirankTest, ComputesTheMeanWithBuiltInHooks) {
  for (const auto hook : {BuiltinCommHook::ALLREDUCE, BuiltinCommHook::FP16_COMPRESS}) {
    DistributedDataParallel ddp{TwoLayers()};
    ddp.register_builtin_comm_hook(hook);
    const Tensors expected = mean_gradients(*ddp.module());
    loss(ddp(data())).backward();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(ddp.parameters()[i].grad().allclose(expected[i], 1e-2, 1e-1)) << i;
    }
    const at::Tensor gradient = ddp.parameters()[0].grad();
    EXPECT_EQ(gradient.equal(gradient.to(at::kHalf).to(at::kFloat)),
              hook == BuiltinCommHook::FP16_COMPRESS);
  }
}

TEST_F(DdpHooksMultirankTest, UsesTheResultOfAHookAsGradients) {
  DistributedDataParallel ddp(TwoLayers(), {.bucket_cap_mb = 0});
  std::vector<std::size_t> buckets;
  bool last = false;
  ddp.register_comm_hook([&](c10d::GradBucket& bucket) {
    buckets.push_back(bucket.getIndex());
    last = bucket.isLast();
    EXPECT_EQ(bucket.getParameters().size(), bucket.getGradients().size());
    return completed_future(at::full_like(bucket.getBuffer(), 5.0));
  });
  loss(ddp(data())).backward();  // One bucket: the order of gradients is not known yet.
  EXPECT_THAT(buckets, ElementsAre(0));
  for (const at::Tensor& one : ddp.parameters()) {
    EXPECT_TRUE(one.grad().equal(at::full_like(one, 5.0)));
  }
  loss(ddp(data())).backward();
  EXPECT_THAT(buckets, ElementsAre(0, 0, 1, 2, 3));
  EXPECT_TRUE(last);
}

TEST_F(DdpHooksMultirankTest, AcceptsAListOfOneTensor) {
  DistributedDataParallel ddp{TwoLayers()};
  ddp.register_comm_hook([](c10d::GradBucket& bucket) {
    return all_reduce(bucket.getBuffer(), ReduceOp::SUM, {.async_op = true}).get_future();
  });
  Tensors expected = mean_gradients(*ddp.module());
  for (at::Tensor& one : expected) one = one * get_world_size();
  loss(ddp(data())).backward();
  expect_gradients(*ddp.module(), expected);
}

TEST_F(DdpHooksMultirankTest, NamesTheHookThatReturnsAnInvalidResult) {
  EXPECT_THAT(error_with([](c10d::GradBucket&) { return Future(); }),
              StartsWith("communication hook odd: it has returned a null Future; expected one that "
                         "holds the gradients"));
  EXPECT_THAT(error_with([](c10d::GradBucket&) { return completed_future(at::Tensor()); }),
              HasSubstr("communication hook odd: its future holds an undefined tensor; expected "
                        "the gradients"));
  EXPECT_THAT(error_with([](c10d::GradBucket&) { return future_of(c10::IntType::get(), 1); }),
              HasSubstr("communication hook odd: its future holds Int; expected a tensor"));
  EXPECT_THAT(error_with([](c10d::GradBucket&) {
                return future_of(c10::ListType::ofTensors(), Tensors());
              }),
              HasSubstr("its future holds a list of 0 tensors; expected one"));
  EXPECT_THAT(error_with([](c10d::GradBucket&) { return completed_future(at::ones({1})); }),
              HasSubstr("its future holds a tensor of sizes [1], Float on cpu; expected those of "
                        "the bucket's buffer, [26], Float on cpu"));
  EXPECT_THAT(error_with([](c10d::GradBucket& bucket) {
                return completed_future(bucket.getBuffer().to(at::kDouble));
              }),
              HasSubstr("Double"));
}

TEST_F(DdpHooksMultirankTest, RethrowsTheExceptionOfAHookInBackward) {
  const auto fails = [](c10d::GradBucket&) -> Future { throw std::runtime_error("no mood"); };
  EXPECT_THAT(error_with(fails), HasSubstr("no mood"));
  EXPECT_THAT(error_with([](c10d::GradBucket&) {
                auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
                future->setError(std::make_exception_ptr(std::runtime_error("too late")));
                return future;
              }),
              HasSubstr("too late"));
}

TEST_F(DdpHooksMultirankTest, AcceptsOneHookPerModel) {
  DistributedDataParallel ddp{TwoLayers()};
  const auto hook = [](c10d::GradBucket& bucket) { return completed_future(bucket.getBuffer()); };
  ddp.register_comm_hook(hook, "mine");
  EXPECT_EQ(ddp.get_ddp_logging_data().strs_map.at("comm_hook"), "mine");
  EXPECT_THAT(error_of([&] { ddp.register_comm_hook(hook); }), HasSubstr("only be called once"));
  EXPECT_THAT(ddp.get_ddp_logging_data().strs_map.at("error"), HasSubstr("only be called once"));
}

}  // namespace
}  // namespace distrun
