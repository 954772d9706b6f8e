// SyncBatchNorm in one process.
#include "distrun/sync_batch_norm.h"

#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include "distrun/fake.h"
#include "distrun/process_group.h"

namespace distrun {
namespace {

using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNormOptions;

class SyncBatchNormTest : public ::testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(5); }

  template <class Act>
  static std::string norm_error(const Act& act) {
    try {
      act();
    } catch (const c10::ValueError& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }
};

// Without a process group, the layer is a plain BatchNorm.
template <class Plain>
void expect_as_plain(const BatchNormOptions& options, const at::Tensor& x) {
  Plain plain(options);
  SyncBatchNorm sync(options);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(sync(x + step).equal(plain(x + step)));
  }
  for (const auto& one : plain->named_buffers()) {
    EXPECT_TRUE(sync->named_buffers()[one.key()].equal(one.value())) << one.key();
  }
  plain->eval();
  sync->eval();
  EXPECT_TRUE(sync(x).equal(plain(x)));
}

TEST_F(SyncBatchNormTest, WithoutAGroupTheLayerIsABatchNorm) {
  expect_as_plain<BatchNorm1d>(3, at::randn({4, 3}));
  expect_as_plain<BatchNorm1d>(BatchNormOptions(3).momentum(std::nullopt), at::randn({4, 3, 2}));
  expect_as_plain<BatchNorm2d>(BatchNormOptions(3).affine(false), at::randn({4, 3, 2, 2}));
  expect_as_plain<torch::nn::BatchNorm3d>(BatchNormOptions(3).track_running_stats(false),
                                          at::randn({4, 3, 2, 2, 2}));
  SyncBatchNorm norm(3);
  EXPECT_EQ(norm_error([&] {
              norm(at::ones({1, 3}));
            }),
            "SyncBatchNorm: expected more than 1 value per channel when training, got input size "
            "[1, 3]");
  EXPECT_EQ(norm_error([&] { norm(at::ones({3})); }),
            "SyncBatchNorm: expected at least 2D input (got 1D input)");
}

TEST_F(SyncBatchNormTest, MixedDtypesWorkWithoutAGroup) {
  const at::Tensor x = at::randn({6, 3});
  SyncBatchNorm whole(3), half(3);
  half->to(at::kBFloat16);
  const at::Tensor expected = whole(x);
  EXPECT_TRUE(half(x).allclose(expected, 1e-2, 1e-2));
  EXPECT_EQ(half->running_mean.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(half->running_var.to(at::kFloat).allclose(whole->running_var, 1e-2, 1e-2));
  const at::Tensor low = whole(x.to(at::kHalf));
  EXPECT_EQ(low.scalar_type(), at::kHalf);
  EXPECT_TRUE(low.to(at::kFloat).allclose(expected, 1e-2, 1e-2));
}

TEST_F(SyncBatchNormTest, ACloneHasTensorsOfItsOwn) {
  SyncBatchNorm norm(BatchNormOptions(3).eps(0.1));
  norm(at::randn({4, 3}));
  const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(norm->clone());
  ASSERT_TRUE(copy);
  EXPECT_TRUE(copy->running_mean.equal(norm->running_mean));
  EXPECT_FALSE(copy->running_mean.is_same(norm->running_mean));
  EXPECT_TRUE(copy->named_parameters()["weight"].is_same(copy->weight));
  EXPECT_EQ(copy->options.eps(), 0.1);
}

TEST_F(SyncBatchNormTest, ResetParametersRestoresTheFirstValues) {
  SyncBatchNorm norm(2);
  norm(at::randn({4, 2}));
  norm->weight.detach().fill_(7);
  norm->reset_parameters();
  EXPECT_TRUE(norm->weight.equal(at::ones({2})));
  EXPECT_TRUE(norm->running_mean.equal(at::zeros({2})));
  EXPECT_TRUE(norm->running_var.equal(at::ones({2})));
  EXPECT_EQ(norm->num_batches_tracked.item<int>(), 0);
}

TEST_F(SyncBatchNormTest, PrintsItsOptions) {
  std::ostringstream text;
  text << SyncBatchNorm(BatchNormOptions(3).momentum(std::nullopt));
  EXPECT_EQ(text.str(),
            "distrun::SyncBatchNorm(3, eps=1e-05, momentum=None, affine=true, "
            "track_running_stats=true)");
}

// In a dry run, each other rank has the batch of this one.
TEST_F(SyncBatchNormTest, RunsInADryRun) {
  init_process_group("fake", {.rank = 0, .world_size = 1024});
  SyncBatchNorm norm(3);
  BatchNorm1d plain(3);
  const at::Tensor x = at::randn({4, 3}).requires_grad_();
  const at::Tensor y = norm(x);
  EXPECT_TRUE(y.allclose(plain(x), 1e-4, 1e-5));
  reset_wire_traffic();
  y.sum().backward();
  ASSERT_EQ(wire_traffic().size(), 1);
  EXPECT_EQ(wire_traffic()[0].operation, "all_reduce");
  destroy_process_group();
}

}  // namespace
}  // namespace distrun
