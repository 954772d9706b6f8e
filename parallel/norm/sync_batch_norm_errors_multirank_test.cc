// Wrong uses of SyncBatchNorm: all ranks find the same error, and the layer remains usable.
#include <functional>
#include <string>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "parallel/norm/test/sync_batch_norm_fixture.h"

namespace distrun {
namespace {

class SyncBatchNormErrorsMultirankTest : public SyncBatchNormMultirankTest {
 protected:
  // The last rank's input is wrong.
  static void expect_error(SyncBatchNorm& norm, const at::Tensor& wrong, const std::string& text) {
    SCOPED_TRACE(text);
    const int last = get_world_size() - 1;
    const at::Tensor good = at::randn({4, kChannels});
    const std::string rank = last == 0 ? "" : "rank " + std::to_string(last) + ": ";
    EXPECT_EQ(error_of<c10::ValueError>([&] { norm(get_rank() == last ? wrong : good); }),
              "SyncBatchNorm: " + rank + text);
    EXPECT_EQ(error_of([&] { norm(good); }), "no error");
  }
};

TEST_F(SyncBatchNormErrorsMultirankTest, AllRanksFindAWrongInput) {
  SyncBatchNorm norm(kChannels);
  expect_error(norm, at::ones({3}), "expected at least 2D input (got 1D input)");
  expect_error(norm, at::ones({2, 4, 5}),
               "the input has sizes [2, 4, 5], so 4 channels; expected 3");
  expect_error(norm, at::ones({2, 3}, at::kLong),
               "the input has dtype Long; expected Float, Double, Half or BFloat16");
  expect_error(norm, at::ones({2, 3}, at::kDouble),
               "the input has dtype Double, and the layer Float; convert one of them, for example "
               "with to()");
  expect_error(norm, at::Tensor(), "the input is undefined");
  expect_error(norm, at::ones({2, 3}).to_sparse(), "the input is Sparse; expected a dense tensor");
  expect_error(norm, at::ones({2, 3}, at::TensorOptions(at::kFloat).device(at::kMeta)),
               "the input is on meta, and the layer on cpu");
  // Only correct batches were counted.
  EXPECT_EQ(norm->num_batches_tracked.item<int>(), 7);
}

TEST_F(SyncBatchNormErrorsMultirankTest, AllRanksFindALayerWithAWrongParameter) {
  SyncBatchNorm norm(kChannels);
  if (get_rank() == 0) norm->weight.set_data(at::ones({1}));
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              norm(at::ones({2, kChannels}));
            }),
            std::string("SyncBatchNorm: ") + (get_world_size() == 1 ? "" : "rank 0: ") +
                "a parameter or buffer has sizes [1]; expected [3]: call unshard() of its "
                "FullyShardedDataParallel first");
}

TEST_F(SyncBatchNormErrorsMultirankTest, AllRanksFindLayersThatDiffer) {
  const int last = get_world_size() - 1;
  SyncBatchNorm none(0);
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              none(at::zeros({2, 0}));
            }),
            std::string("SyncBatchNorm: ") + (last == 0 ? "" : "rank 0: ") +
                "number of input channels should be non-zero");
  if (last == 0) return;
  const std::int64_t channels = get_rank() == last ? 4 : 3;
  SyncBatchNorm norm(channels);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of<c10::ValueError>([&] {
                norm(at::ones({2, channels}));
              }),
              "SyncBatchNorm: rank " + std::to_string(last) +
                  " has 4 channels, and rank 0 has 3; all ranks must construct the same layer");
  }
}

TEST_F(SyncBatchNormErrorsMultirankTest, OneValuePerChannelIsAnErrorOnAllRanks) {
  SyncBatchNorm norm(kChannels);
  const at::Tensor own = at::ones({get_rank() == 0 ? 1 : 0, kChannels});
  EXPECT_EQ(error_of<c10::ValueError>([&] { norm(own); }),
            get_world_size() == 1
                ? "SyncBatchNorm: expected more than 1 value per channel when training, got input "
                  "size [1, 3]"
                : "SyncBatchNorm: expected more than 1 value per channel when training; the "
                  "batches of all ranks together have 1");
  if (get_world_size() > 1) {
    const at::Tensor one = at::full({1, kChannels}, static_cast<double>(get_rank()));
    EXPECT_EQ(error_of([&] { norm(one); }), "no error");
  }
}

TEST_F(SyncBatchNormErrorsMultirankTest, ARankWithoutGradientsIsAnErrorOnAllRanks) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs another rank";
  SyncBatchNorm norm(kChannels);
  const at::Tensor x = at::ones({2, kChannels}).requires_grad_();
  EXPECT_EQ(error_of<c10::ValueError>([&] {
              const at::AutoGradMode mode(get_rank() != 1);
              norm(x);
            }),
            c10::str("SyncBatchNorm: the input of rank ",
                     get_world_size() == 2 ? 0 : get_world_size() - 1,
                     " requires a gradient, and rank 1 computes none, so backward() would wait "
                     "for it; use the same NoGradGuard and requires_grad on all ranks"));
}

TEST_F(SyncBatchNormErrorsMultirankTest, ARankOutsideItsGroupIsAnError) {
  const Group first = new_group({0});
  SyncBatchNorm norm(kChannels, first);
  const at::Tensor x = at::randn({4, kChannels});
  EXPECT_EQ(error_of<c10::ValueError>([&] { norm(x); }),
            get_rank() == 0 ? "no error"
                            : "SyncBatchNorm: rank " + std::to_string(get_rank()) +
                                  " is not in its process_group");
  norm->eval();  // Needs no group.
  EXPECT_EQ(error_of([&] { norm(x); }), "no error");
}

// As after a restart within the processes: rank 0 keeps its layer.
TEST_F(SyncBatchNormErrorsMultirankTest, LayersCompareTheirChannelsAgainInANewGroup) {
  SyncBatchNorm layer(3);
  layer(at::ones({2, 3}) * (1 + get_rank()));
  barrier();
  destroy_process_group();
  init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
  if (get_rank() != 0) layer = SyncBatchNorm(3);
  EXPECT_EQ(layer(at::ones({2, 3}) * (1 + get_rank())).size(1), 3);
}

}  // namespace
}  // namespace distrun
