#include <cmath>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Logging.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/serialize.h>

#include "distrun/comm_hooks.h"
#include "distrun/join.h"
#include "distrun/power_sgd_hook.h"
#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// backward() of forward(x, y, …) gives each parameter exactly these gradients.
struct GivenGradientsImpl : torch::nn::Module {
  std::vector<at::Tensor> weights;
  explicit GivenGradientsImpl(const std::vector<std::vector<int64_t>>& sizes) {
    for (const auto& one : sizes) {
      weights.push_back(register_parameter("w" + std::to_string(weights.size()), at::ones(one)));
    }
  }
  at::Tensor forward(const Tensors& gradients) {
    at::Tensor sum = at::zeros({});
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) sum = sum + (weights[i] * gradients[i]).sum();
    }
    return sum;
  }
};

using Ddp = DistributedDataParallel<GivenGradientsImpl>;

class PowerSgdMultirankTest : public DdpMultirankTest {
 protected:
  static std::shared_ptr<GivenGradientsImpl> net(const std::vector<std::vector<int64_t>>& sizes) {
    return std::make_shared<GivenGradientsImpl>(sizes);
  }

  static Tensors reduced(Ddp& ddp, const Tensors& gradients) {
    ddp.zero_grad();
    ddp(gradients).backward();
    Tensors result;
    for (const at::Tensor& one : ddp.parameters()) {
      result.push_back(one.grad().defined() ? one.grad().clone() : one.grad());
    }
    return result;
  }

  static Tensors random_gradients(const Ddp& ddp) {
    Tensors gradients;
    for (const at::Tensor& one : ddp.module()->weights) gradients.push_back(at::randn(one.sizes()));
    return gradients;
  }

  static at::Tensor mean_of(const at::Tensor& tensor) {
    const at::Tensor mean = tensor / get_world_size();
    all_reduce(mean);
    return mean;
  }

  // A mean of matrices of rank 1, so of rank `get_world_size()`.
  static at::Tensor low_rank(int64_t rows, int64_t columns) {
    return at::outer(at::randn({rows}), at::randn({columns}));
  }

  static std::string saved(const PowerSGDState& state) {
    std::ostringstream file;
    torch::save(state, file);
    return file.str();
  }
  static void load(PowerSGDState& state, const std::string& saved) {
    std::istringstream file(saved);
    torch::load(state, file);
  }
};

TEST_F(PowerSgdMultirankTest, SendsWholeGradientsUntilTheStart) {
  PowerSGDState state({.start_powerSGD_iter = 3});
  Ddp ddp(net({{20, 30}, {30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 6; ++step) {
    EXPECT_EQ(state.iter(), step);
    const Tensors given = random_gradients(ddp);
    const Tensors result = reduced(ddp, given);
    // A vector is never worth it.
    EXPECT_TRUE(result[1].allclose(mean_of(given[1]), 1e-5, 1e-6)) << step;
    EXPECT_EQ(result[0].allclose(mean_of(given[0]), 1e-5, 1e-6), step < 3) << step;
    for (const at::Tensor& one : result) expect_same_everywhere(one);
  }
  EXPECT_EQ(state.iter(), 6);
}

TEST_F(PowerSgdMultirankTest, ReproducesMatricesOfLowRank) {
  for (const bool batch : {false, true}) {
    for (const int rank : {get_world_size(), get_world_size() + 2}) {
      PowerSGDState state({.matrix_approximation_rank = rank,
                           .start_powerSGD_iter = 2,
                           .min_compression_rate = 1,
                           .batch_tensors_with_same_shape = batch});
      Ddp ddp(net({{20, 30}, {30}, {20, 30}, {25, 5, 6}, {20, 30}}));
      ddp.register_comm_hook(state, powerSGD_hook);
      const Tensors given = {low_rank(20, 30), at::randn({30}), low_rank(20, 30),
                             low_rank(25, 30).view({25, 5, 6}), low_rank(20, 30)};
      for (int step = 0; step < 5; ++step) {
        const Tensors result = reduced(ddp, given);
        for (std::size_t i = 0; i < given.size(); ++i) {
          EXPECT_TRUE(result[i].allclose(mean_of(given[i]), 1e-3, 1e-3))
              << step << ", " << i << ", " << rank;
        }
      }
      EXPECT_GT(state.compression_stats().compress_rate, 1);
    }
  }
}

TEST_F(PowerSgdMultirankTest, ReproducesASquareOfLowRankInABatchedBucket) {
  PowerSGDState state({.matrix_approximation_rank = get_world_size(), .start_powerSGD_iter = 2});
  Ddp ddp(net({{21 * 21 - 3}}));
  ddp.register_comm_hook(state, batched_powerSGD_hook);
  for (int step = 0; step < 5; ++step) {
    // A square whose last elements are zero, as the hook adds them.
    const at::Tensor left = at::randn({21});
    left[20] = 0;
    const at::Tensor given = at::outer(left, at::randn({21})).view({-1}).narrow(0, 0, 21 * 21 - 3);
    const Tensors result = reduced(ddp, {given});
    EXPECT_TRUE(result[0].allclose(mean_of(given), 1e-3, 1e-3)) << step;
  }
  const CompressionStats stats = state.compression_stats();
  EXPECT_EQ(stats.numel_before_compression, 3 * (21 * 21 - 3));
  EXPECT_EQ(stats.numel_after_compression, 3 * 2 * 21 * get_world_size());
}

TEST_F(PowerSgdMultirankTest, MakesUpForTheErrorsOfEarlierIterations) {
  for (const bool batched : {false, true}) {
    PowerSGDState state({.start_powerSGD_iter = 2});
    Ddp ddp(net({{12, 12}}));
    if (batched) {
      ddp.register_comm_hook(state, batched_powerSGD_hook);
    } else {
      ddp.register_comm_hook(state, powerSGD_hook);
    }
    const Tensors given = random_gradients(ddp);
    const at::Tensor mean = mean_of(given[0]);
    for (int step = 0; step < 2; ++step) reduced(ddp, given);
    at::Tensor sum = at::zeros({12, 12});
    constexpr int kSteps = 200;
    for (int step = 0; step < kSteps; ++step) sum += reduced(ddp, given)[0];
    EXPECT_LT((sum / kSteps - mean).norm().item<double>(), 0.15 * mean.norm().item<double>());
  }
}

TEST_F(PowerSgdMultirankTest, WarmStartConvergesToTheBestApproximation) {
  PowerSGDState state({.matrix_approximation_rank = 2,
                       .start_powerSGD_iter = 2,
                       .min_compression_rate = 1,
                       .use_error_feedback = false});
  Ddp ddp(net({{20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  torch::manual_seed(3 + static_cast<uint64_t>(get_rank()));
  const Tensors given = {low_rank(20, 30) * 5 + low_rank(20, 30) * 5 + at::randn({20, 30}) * 0.1};
  const at::Tensor mean = mean_of(given[0]);
  at::Tensor result;
  for (int step = 0; step < 60; ++step) result = reduced(ddp, given)[0];
  const auto [u, s, v] = at::linalg_svd(mean, false);
  const at::Tensor best = at::matmul(u.narrow(1, 0, 2) * s.narrow(0, 0, 2), v.narrow(0, 0, 2));
  EXPECT_TRUE(result.allclose(best, 1e-2, 1e-2)) << (result - best).abs().max();
}

TEST_F(PowerSgdMultirankTest, StartsFromOtherRandomNumbersWithoutWarmStart) {
  PowerSGDState state({.start_powerSGD_iter = 0, .use_error_feedback = false, .warm_start = false});
  Ddp ddp(net({{20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  const Tensors given = random_gradients(ddp);
  const at::Tensor first = reduced(ddp, given)[0];
  const at::Tensor second = reduced(ddp, given)[0];
  EXPECT_FALSE(first.allclose(second, 1e-2, 1e-2));
  EXPECT_FALSE(first.allclose(mean_of(given[0]), 1e-2, 1e-2));
  expect_same_everywhere(second);
}

TEST_F(PowerSgdMultirankTest, DoesNotChangeTheDefaultGenerator) {
  PowerSGDState state({.start_powerSGD_iter = 2, .warm_start = false});
  Ddp ddp(net({{20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  const Tensors given = random_gradients(ddp);
  torch::manual_seed(9);
  for (int step = 0; step < 4; ++step) reduced(ddp, given);
  const at::Tensor after = at::rand({3});
  torch::manual_seed(9);
  EXPECT_TRUE(after.equal(at::rand({3})));
}

TEST_F(PowerSgdMultirankTest, ReducesManyBucketsInTheSameOrderOnAllRanks) {
  for (const bool views : {false, true}) {
    PowerSGDState state({.matrix_approximation_rank = 2, .start_powerSGD_iter = 2});
    Ddp ddp(net({{20, 30}, {30}, {16, 16}, {16}, {30, 10}, {16, 16}, {8, 8, 4}}),
            {.bucket_cap_mb = 0, .gradient_as_bucket_view = views});
    ddp.register_comm_hook(state, powerSGD_hook);
    for (int step = 0; step < 20; ++step) {
      const Tensors given = random_gradients(ddp);
      const Tensors result = reduced(ddp, given);
      for (const at::Tensor& one : result) expect_same_everywhere(one);
      EXPECT_TRUE(result[1].allclose(mean_of(given[1]), 1e-5, 1e-6)) << step;
    }
    EXPECT_EQ(state.iter(), 20);
  }
}

TEST_F(PowerSgdMultirankTest, WorksInHalfAndBfloat16) {
  for (const bool half : {false, true}) {
    PowerSGDState state({.matrix_approximation_rank = get_world_size(), .start_powerSGD_iter = 2});
    Ddp ddp(net({{20, 30}, {30}, {18, 24}}), {.bucket_cap_mb = 0});
    if (half) {
      ddp.register_comm_hook(state, fp16_compress_wrapper(powerSGD_hook));
    } else {
      ddp.register_comm_hook(state, bf16_compress_wrapper(powerSGD_hook));
    }
    const double close = half ? 0.03 : 0.15;
    const Tensors given = {low_rank(20, 30), at::randn({30}), low_rank(18, 24)};
    for (int step = 0; step < 4; ++step) {
      const Tensors result = reduced(ddp, given);
      for (std::size_t i = 0; i < given.size(); ++i) {
        EXPECT_TRUE(result[i].allclose(mean_of(given[i]), close, close)) << step << ", " << i;
        EXPECT_EQ(result[i].scalar_type(), at::kFloat);
      }
    }
  }
}

TEST_F(PowerSgdMultirankTest, CompressesAgainAfterGradientsOfZero) {
  for (const double epsilon : {0.0, 1e-8}) {
    PowerSGDState state({.matrix_approximation_rank = get_world_size(),
                         .start_powerSGD_iter = 2,
                         .orthogonalization_epsilon = epsilon});
    Ddp ddp(net({{20, 30}}));
    ddp.register_comm_hook(state, powerSGD_hook);
    for (int step = 0; step < 4; ++step) {
      const Tensors result = reduced(ddp, {at::zeros({20, 30})});
      EXPECT_TRUE(result[0].equal(at::zeros({20, 30}))) << step;
    }
    const Tensors given = {low_rank(20, 30)};
    EXPECT_TRUE(reduced(ddp, given)[0].allclose(mean_of(given[0]), 1e-3, 1e-3)) << epsilon;
  }
}

TEST_F(PowerSgdMultirankTest, AcceptsScalarsAndEmptyParameters) {
  PowerSGDState state({.start_powerSGD_iter = 2});
  Ddp ddp(net({{}, {0, 3}, {20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 4; ++step) {
    const Tensors given = random_gradients(ddp);
    const Tensors result = reduced(ddp, given);
    EXPECT_TRUE(result[0].allclose(mean_of(given[0]))) << step;
  }
}

TEST_F(PowerSgdMultirankTest, CountsElements) {
  PowerSGDState state({.matrix_approximation_rank = 2, .start_powerSGD_iter = 2});
  EXPECT_EQ(state.compression_stats().compress_rate, 0);
  Ddp ddp(net({{20, 30}, {7}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 5; ++step) reduced(ddp, random_gradients(ddp));
  const CompressionStats stats = state.compression_stats();
  EXPECT_EQ(stats.numel_before_compression, 3 * 607);
  EXPECT_EQ(stats.numel_after_compression, 3 * (2 * 50 + 7));
  EXPECT_DOUBLE_EQ(stats.compress_rate, 607.0 / 107);
}

TEST_F(PowerSgdMultirankTest, LogsTheCompression) {
  PowerSGDState state({.matrix_approximation_rank = 2,
                       .start_powerSGD_iter = 2,
                       .compression_stats_logging_frequency = 2});
  Ddp ddp(net({{20, 30}, {7}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  const int level = std::exchange(FLAGS_caffe2_log_level, 0);
  ::testing::internal::CaptureStderr();
  for (int step = 0; step < 5; ++step) reduced(ddp, random_gradients(ddp));
  const std::string log = ::testing::internal::GetCapturedStderr();
  FLAGS_caffe2_log_level = level;
  EXPECT_THAT(log, HasSubstr("PowerSGD: compresses gradients after 2 iterations"));
  EXPECT_THAT(log, HasSubstr("PowerSGD: iteration 2: compressed 607 elements to 107, rate 5.67"));
  EXPECT_THAT(log, Not(HasSubstr("PowerSGD: iteration 3")));
  EXPECT_THAT(log, HasSubstr("PowerSGD: iteration 4: compressed 1821 elements to 321, rate 5.67"));
}

TEST_F(PowerSgdMultirankTest, CompressesOnlyWhatIsWorthIt) {
  // (20 + 30) · 1 · rate < 600 up to a rate of 12.
  for (const double rate : {11.9, 12.0}) {
    PowerSGDState state({.start_powerSGD_iter = 2, .min_compression_rate = rate});
    Ddp ddp(net({{20, 30}}));
    ddp.register_comm_hook(state, powerSGD_hook);
    for (int step = 0; step < 3; ++step) reduced(ddp, random_gradients(ddp));
    EXPECT_EQ(state.compression_stats().numel_after_compression, rate < 12 ? 50 : 600);
  }
}

TEST_F(PowerSgdMultirankTest, ContinuesFromASavedState) {
  const PowerSGDOptions options{
      .matrix_approximation_rank = 2, .start_powerSGD_iter = 2, .random_seed = 5};
  PowerSGDState state(options);
  Ddp ddp(net({{20, 30}, {16, 18}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 4; ++step) reduced(ddp, random_gradients(ddp));

  PowerSGDState other;
  load(other, saved(state));
  EXPECT_EQ(other.iter(), 4);
  EXPECT_EQ(other.options().matrix_approximation_rank, 2);
  EXPECT_EQ(other.options().start_powerSGD_iter, 2);
  EXPECT_EQ(other.options().random_seed, 5);
  EXPECT_EQ(other.compression_stats().numel_after_compression,
            state.compression_stats().numel_after_compression);
  Ddp resumed(net({{20, 30}, {16, 18}}));
  resumed.register_comm_hook(other, powerSGD_hook);
  for (int step = 0; step < 2; ++step) {  // The buckets are not the final ones yet.
    const Tensors given = random_gradients(resumed);
    EXPECT_TRUE(reduced(resumed, given)[0].allclose(mean_of(given[0]), 1e-5, 1e-5)) << step;
  }
  for (int step = 0; step < 4; ++step) {
    const Tensors given = random_gradients(ddp);
    const Tensors expected = reduced(ddp, given);
    const Tensors result = reduced(resumed, given);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(result[i].equal(expected[i])) << step;
  }
}

TEST_F(PowerSgdMultirankTest, ContinuesTheRandomNumbersOfASavedState) {
  const PowerSGDOptions options{
      .start_powerSGD_iter = 0, .use_error_feedback = false, .warm_start = false};
  PowerSGDState state(options);
  Ddp ddp(net({{20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  const Tensors given = random_gradients(ddp);
  for (int step = 0; step < 3; ++step) reduced(ddp, given);
  PowerSGDState other(options);
  load(other, saved(state));
  Ddp resumed(net({{20, 30}}));
  resumed.register_comm_hook(other, powerSGD_hook);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(reduced(resumed, given)[0].equal(reduced(ddp, given)[0])) << step;
  }
}

TEST_F(PowerSgdMultirankTest, RejectsASavedStateOfOtherBuckets) {
  PowerSGDState state({.start_powerSGD_iter = 2});
  Ddp ddp(net({{20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 4; ++step) reduced(ddp, random_gradients(ddp));
  PowerSGDState other;
  load(other, saved(state));
  Ddp resumed(net({{20, 31}}));
  resumed.register_comm_hook(other, powerSGD_hook);
  for (int step = 0; step < 2; ++step) reduced(resumed, random_gradients(resumed));
  EXPECT_THAT(error_of([&] { reduced(resumed, random_gradients(resumed)); }),
              HasSubstr("PowerSGD on rank " + std::to_string(get_rank()) +
                        ": the saved error of bucket 0 has 600 elements, and the bucket has 620; "
                        "use a state for one DistributedDataParallel; after "
                        "PowerSGDState::load(), use the model and the bucket_cap_mb of the "
                        "saved run"));
}

TEST_F(PowerSgdMultirankTest, RejectsAnArchiveOfSomethingElse) {
  std::ostringstream file;
  torch::save(at::ones({1}), file);
  PowerSGDState state;
  EXPECT_THAT(error_of([&] { load(state, file.str()); }),
              StartsWith("PowerSGDState: the archive has no 'matrix_approximation_rank'; pass an "
                         "archive that a PowerSGDState has saved"));
}

TEST_F(PowerSgdMultirankTest, RejectsADamagedArchive) {
  PowerSGDState state({.start_powerSGD_iter = 2});
  Ddp ddp(net({{20, 30}}));
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 4; ++step) reduced(ddp, random_gradients(ddp));
  const std::string good = saved(state);
  // An archive with another value.
  const auto damaged = [&](const std::string& name, const c10::IValue& wrong) {
    std::istringstream input(good);
    torch::serialize::InputArchive from;
    from.load_from(input);
    torch::serialize::OutputArchive to;
    for (const std::string& key : from.keys()) {
      c10::IValue value;
      from.read(key, value);
      to.write(key, key == name ? wrong : value);
    }
    std::ostringstream output;
    to.save_to(output);
    return output.str();
  };
  PowerSGDState other;
  const auto error = [&](const std::string& name, const c10::IValue& wrong) {
    return error_of([&] { load(other, damaged(name, wrong)); });
  };
  std::istringstream input(good);
  torch::serialize::InputArchive archive;
  archive.load_from(input);
  const auto is_damaged = [](const std::string& name) {
    return "PowerSGDState: the archive is damaged: '" + name +
           "' is not what a PowerSGDState saves; load another one";
  };
  EXPECT_EQ(archive.keys().size(), 17);
  for (const std::string& name : archive.keys()) {
    EXPECT_EQ(error(name, c10::List<std::int64_t>({1})), is_damaged(name));
  }
  EXPECT_EQ(error("iter", -1), is_damaged("iter"));
  c10::Dict<std::int64_t, at::Tensor> matrix, unknown;
  matrix.insert(0, at::ones({2, 2}));
  EXPECT_EQ(error("error_dict", matrix), is_damaged("error_dict"));
  EXPECT_EQ(error("q_memory_dict", unknown), is_damaged("p_memory_dict"));
  EXPECT_THAT(error("matrix_approximation_rank", 0),
              StartsWith("PowerSGDState: matrix_approximation_rank is 0"));
  EXPECT_THAT(error("rng", "x"), HasSubstr("the archive has no state of a random generator"));
  EXPECT_EQ(other.iter(), 0);
  EXPECT_EQ(error("none", 0), "no error");
  EXPECT_EQ(other.iter(), 4);
}

TEST_F(PowerSgdMultirankTest, RejectsInvalidOptions) {
  for (const bool feedback : {false, true}) {
    EXPECT_THAT(
        error_of([&] {
          PowerSGDState(
              {.start_powerSGD_iter = 1, .use_error_feedback = feedback, .warm_start = !feedback});
        }),
        StartsWith("PowerSGDState: start_powerSGD_iter is 1; with use_error_feedback or "
                   "warm_start, pass at least 2, because DistributedDataParallel changes "
                   "its buckets after the first iteration"));
  }
  EXPECT_THAT(error_of([] { PowerSGDState({.matrix_approximation_rank = 0}); }),
              StartsWith("PowerSGDState: matrix_approximation_rank is 0; expected at least 1"));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double rate : {-1.0, -infinity, std::nan("")}) {
    EXPECT_EQ(MultirankTest::error_of<c10::ValueError>(
                  [&] { PowerSGDState({.min_compression_rate = rate}); }),
              c10::str("PowerSGDState: min_compression_rate is ", rate,
                       "; expected 0, which compresses each gradient, or more"));
  }
  for (const double epsilon : {-1e-8, infinity, std::nan("")}) {
    EXPECT_EQ(MultirankTest::error_of<c10::ValueError>(
                  [&] { PowerSGDState({.orthogonalization_epsilon = epsilon}); }),
              c10::str("PowerSGDState: orthogonalization_epsilon is ", epsilon,
                       "; expected 0 or a small positive number, such as 1e-8"));
  }
  // As in Python.
  PowerSGDState({.start_powerSGD_iter = -1, .use_error_feedback = false, .warm_start = false});
  PowerSGDState({.min_compression_rate = 0, .compression_stats_logging_frequency = -1});
  PowerSGDState({.min_compression_rate = infinity});
}

TEST_F(PowerSgdMultirankTest, EmptyBracesAreTheDefaultOptions) {
  EXPECT_EQ(PowerSGDState({}).options().start_powerSGD_iter, 1000);
  EXPECT_EQ(PowerSGDState{{}}.options().start_powerSGD_iter, 1000);
  EXPECT_EQ(PowerSGDState{}.options().start_powerSGD_iter, 1000);
  EXPECT_EQ(PowerSGDState{PowerSGDOptions{.start_powerSGD_iter = 7}}.options().start_powerSGD_iter,
            7);
  static_assert(!std::is_constructible_v<PowerSGDState, int>);
}

TEST_F(PowerSgdMultirankTest, ReducesInASubGroup) {
  const Group alone = new_subgroups(1).own.value();
  PowerSGDState state({.process_group = alone, .start_powerSGD_iter = 2});
  Ddp ddp(net({{20, 30}}), {.process_group = alone});
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 4; ++step) {
    const Tensors given = {low_rank(20, 30)};
    EXPECT_TRUE(reduced(ddp, given)[0].allclose(given[0], 1e-3, 1e-3)) << step;
  }
}

TEST_F(PowerSgdMultirankTest, TakesPartInAJoin) {
  for (const bool find_unused : {false, true}) {
    PowerSGDState state({.matrix_approximation_rank = get_world_size(), .start_powerSGD_iter = 2});
    Ddp ddp(net({{20, 30}, {30}, {18, 24}}),
            {.bucket_cap_mb = 0, .find_unused_parameters = find_unused});
    ddp.register_comm_hook(state, powerSGD_hook);
    const int steps = 4 + 2 * get_rank();
    int step = 0;
    Join({ddp}).run([&] {
      for (; step < steps; ++step) {
        const at::Tensor vector = at::ones({30});
        const Tensors result = reduced(ddp, {low_rank(20, 30), vector, low_rank(18, 24)});
        // Joined ranks contribute zeros.
        int left = 0;
        for (int rank = 0; rank < get_world_size(); ++rank) left += 4 + 2 * rank > step ? 1 : 0;
        const double mean = static_cast<double>(left) / get_world_size();
        EXPECT_TRUE(result[1].allclose(vector * mean, 1e-5, 1e-5)) << step;
      }
    });
    EXPECT_EQ(state.iter(), 4 + 2 * (get_world_size() - 1));
  }
}

TEST_F(PowerSgdMultirankTest, FinishesWhenTheLastBucketIsSkipped) {
  PowerSGDState state({.matrix_approximation_rank = get_world_size(),
                       .start_powerSGD_iter = 0,
                       .use_error_feedback = false,
                       .warm_start = false});
  Ddp ddp(
      net({{20, 30}, {18, 24}, {16, 20}}),
      {.bucket_cap_mb = 0, .find_unused_parameters = true, .skip_all_reduce_unused_params = true});
  ddp.register_comm_hook(state, powerSGD_hook);
  for (int step = 0; step < 4; ++step) {
    const Tensors given = {at::Tensor(), low_rank(18, 24), low_rank(16, 20)};
    const Tensors result = reduced(ddp, given);
    for (std::size_t i = 1; i < 3; ++i) {
      EXPECT_TRUE(result[i].allclose(mean_of(given[i]), 1e-3, 1e-3)) << step << ", " << i;
    }
  }
}

}  // namespace
}  // namespace distrun
