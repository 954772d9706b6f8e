// Values of parameters and buffers.
#include <cstdlib>
#include <sstream>
#include <string>

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/nn/modules/batchnorm.h>
#include <torch/serialize.h>

#include "parallel/ddp/test/ddp_multirank_fixture.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Its buffer differs on each rank.
struct CounterImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", at::ones({2}));
  at::Tensor frozen =
      register_parameter("frozen", at::full({2}, 1.0 * get_rank()), /*requires_grad=*/false);
  at::Tensor count = register_buffer("count", at::full({2}, 1.0 * get_rank()));
  // Autograd saves the buffer, and a copy of it.
  at::Tensor forward() {
    const at::Tensor sum = (weight * count.clone()).sum() + (weight * count).sum();
    return sum;
  }
};

struct TiedImpl : torch::nn::Module {
  at::Tensor first = register_parameter("first", at::ones({2}));
  at::Tensor second = register_parameter("second", first);
  at::Tensor forward(double x) { return (first * x).sum() + (second * x).sum(); }
};

class DdpStateMultirankTest : public DdpMultirankTest {};

TEST_F(DdpStateMultirankTest, StartsWithTheValuesOfRankZero) {
  DistributedDataParallel ddp{TwoLayers()};
  for (const at::Tensor& one : ddp.parameters()) expect_same_everywhere(one);
  DistributedDataParallel counter(std::make_shared<CounterImpl>());
  EXPECT_TRUE(counter.module()->frozen.equal(at::zeros({2})));
  EXPECT_TRUE(counter.module()->count.equal(at::zeros({2})));
}

TEST_F(DdpStateMultirankTest, LeavesIgnoredTensorsUnchanged) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>(),
                              {.parameters_to_ignore = {"frozen", "count"}});
  ddp();
  EXPECT_TRUE(ddp.module()->frozen.equal(at::full({2}, 1.0 * get_rank())));
  EXPECT_TRUE(ddp.module()->count.equal(at::full({2}, 1.0 * get_rank())));
  EXPECT_THAT(error_of([] {
                DistributedDataParallel(std::make_shared<CounterImpl>(),
                                        {.parameters_to_ignore = {"weigth"}});
              }),
              ContainsRegex("^DistributedDataParallel: parameters_to_ignore has 'weigth', but "
                            ".*CounterImpl has no parameter or buffer of that name$"));
}

TEST_F(DdpStateMultirankTest, ReducesAWeightUnderTwoNamesOnce) {
  DistributedDataParallel ddp(std::make_shared<TiedImpl>());
  for (int step = 1; step <= 2; ++step) {
    ddp(1.0 + get_rank()).backward();
    const at::Tensor mean = at::full({2}, 1.0 * (get_world_size() + 1));
    EXPECT_TRUE(ddp.module()->first.grad().equal(mean * step)) << ddp.module()->first.grad();
  }
}

TEST_F(DdpStateMultirankTest, KeepsValuesWithoutInitialSynchronization) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>(), {.init_sync = false});
  EXPECT_TRUE(ddp.module()->frozen.equal(at::full({2}, 1.0 * get_rank())));
  EXPECT_TRUE(ddp.module()->count.equal(at::full({2}, 1.0 * get_rank())));
}

TEST_F(DdpStateMultirankTest, BroadcastsBuffersBeforeEachForward) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>());
  ddp.module()->count.fill_(7.0 + get_rank());
  ddp();
  EXPECT_TRUE(ddp.module()->count.equal(at::full({2}, 7.0)));
}

TEST_F(DdpStateMultirankTest, FindsReplacedBuffers) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>());
  ddp.module()->named_buffers()["count"].set_data(at::full({2}, 3.0 + get_rank()));
  ddp();
  EXPECT_TRUE(ddp.module()->count.equal(at::full({2}, 3.0)));
}

TEST_F(DdpStateMultirankTest, KeepsBuffersIfBroadcastingIsOff) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>(), {.broadcast_buffers = false});
  ddp();
  EXPECT_TRUE(ddp.module()->count.equal(at::full({2}, 1.0 * get_rank())));
}

TEST_F(DdpStateMultirankTest, KeepsBuffersAfterAForwardWithoutSynchronization) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>());
  {
    const auto alone = ddp.no_sync();
    ddp();  // Still synchronizes: no unsynchronized forward ran before.
    ddp.module()->count.fill_(5.0 + get_rank());
    ddp();
  }
  EXPECT_TRUE(ddp.module()->count.equal(at::full({2}, 5.0 + get_rank())));
}

// The second forward's broadcast must not invalidate what the first saved for its backward.
TEST_F(DdpStateMultirankTest, AllowsTwoForwardsBeforeABackward) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>());
  const at::Tensor first = ddp();
  const at::Tensor both = first + ddp();
  EXPECT_EQ(error_of([&] { both.backward(); }), "no error");
}

TEST_F(DdpStateMultirankTest, NamesRanksAndParameterIfModulesDiffer) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  struct Odd : torch::nn::Module {
    explicit Odd(int parameters, int64_t size) {
      for (int i = 0; i < parameters; ++i) {
        register_parameter("p" + std::to_string(i), at::ones({size}));
      }
    }
    at::Tensor forward() { return parameters()[0]; }
  };
  const bool is_last = get_rank() == get_world_size() - 1;
  const int last = get_world_size() - 1;
  const std::string others = last == 1 ? "rank 0" : "ranks 0, 1", its = std::to_string(last);
  ASSERT_LE(last, 2);
  const auto error_with = [&](int parameters, int64_t size) {
    return error_of([&] { DistributedDataParallel(std::make_shared<Odd>(parameters, size)); });
  };
  EXPECT_THAT(error_with(is_last ? 3 : 2, 2),
              HasSubstr("DistributedDataParallel on rank " + std::to_string(get_rank()) +
                        ": models differ between ranks: parameter 'p2' is missing on " + others +
                        " and [2] Float on rank " + its))
      << "on every rank";
  EXPECT_THAT(error_with(2, is_last ? 3 : 2), HasSubstr("parameter 'p0' is [2] Float on " + others +
                                                        " and [3] Float on rank " + its))
      << "on every rank";
  EXPECT_EQ(error_with(2, 2), "no error");
}

double rank_in_environment() { return std::stod(std::getenv("RANK")); }

// Closes this rank's connections.
void leave() {
  abort_process_group();
  destroy_process_group();
}

TEST_F(DdpStateMultirankTest, ReportsALostPeerDuringConstruction) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  rendezvous_at("connected");
  if (get_rank() == get_world_size() - 1) return leave();
  const std::string text = error_of([] { DistributedDataParallel ddp{TwoLayers()}; });
  EXPECT_THAT(text, HasSubstr("DistributedDataParallel on rank " + std::to_string(get_rank())));
  EXPECT_THAT(text, ContainsRegex(lost_peer()));
  leave();
}

TEST_F(DdpStateMultirankTest, ReportsALostPeerInBackwardWithTheParameters) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  struct TwoWeights : torch::nn::Module {
    at::Tensor first = register_parameter("first", at::ones({2}));
    at::Tensor second = register_parameter("second", at::ones({3}));
    at::Tensor forward() { return first.sum() + second.sum(); }
  };
  {
    DistributedDataParallel ddp(std::make_shared<TwoWeights>());
    rendezvous_at("constructed");
    if (get_rank() == get_world_size() - 1) {
      abort_process_group();
    } else {
      const std::string text =
          MultirankTest::error_of<c10::DistBackendError>([&] { ddp().backward(); });
      EXPECT_THAT(text, HasSubstr("backward() of DistributedDataParallel on rank " +
                                  std::to_string(get_rank()) + " of "));
      EXPECT_THAT(text, ContainsRegex(lost_peer()));
      EXPECT_THAT(text, ContainsRegex("; it reduced the gradients of '(first', 'second|second', "
                                      "'first)'; if ranks have different numbers of inputs, train "
                                      "in a Join \\(distrun/join.h\\)"));
      abort_process_group();
    }
  }
  destroy_process_group();
}

TEST_F(DdpStateMultirankTest, EndsTheTrainingIfAPeerIsLost) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  bool is_gone = false;
  {
    DistributedDataParallel ddp(std::make_shared<CounterImpl>());
    ddp().backward();
    rendezvous_at("trained");
    const bool goes = get_rank() == get_world_size() - 1;
    if (goes) abort_process_group();
    // A sending rank may notice one step later.
    for (int step = 0; step < 3 && !goes && !is_gone; ++step) {
      is_gone = error_of([&] { ddp().backward(); }) != "no error";
    }
    EXPECT_NE(goes, is_gone);
    abort_process_group();
  }
  destroy_process_group();
}

TEST_F(DdpStateMultirankTest, TrainsAfterItsGroupIsDestroyed) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>());
  destroy_process_group();
  for (int step = 1; step <= 2; ++step) {
    ddp.module()->count.fill_(1.0 + rank_in_environment());
    ddp().backward();
    EXPECT_TRUE(ddp.module()->weight.grad().equal(at::full({2}, 2.0 * step)));
  }
}

TEST_F(DdpStateMultirankTest, KeepsItsGroupIfTheDefaultGroupChanges) {
  DistributedDataParallel ddp(std::make_shared<CounterImpl>());
  ddp().backward();
  destroy_process_group();
  init_process_group({.backend = backend(), .timeout = std::chrono::seconds(30)});
  barrier();  // All ranks have connected.
  abort_process_group();
  EXPECT_EQ(error_of([&] { ddp().backward(); }), "no error");
  destroy_process_group();
}

TEST_F(DdpStateMultirankTest, RejectsInvalidModulesAndOptions) {
  struct Nothing : torch::nn::Module {
    at::Tensor forward() { return {}; }
  };
  EXPECT_THAT(error_of([] { DistributedDataParallel(std::make_shared<Nothing>()); }),
              ContainsRegex("^DistributedDataParallel: no parameter of .*Nothing requires a "
                            "gradient, so there is nothing to reduce$"));
  EXPECT_EQ(error_of([] { DistributedDataParallel(std::shared_ptr<Nothing>()); }),
            "DistributedDataParallel: module is null; expected a torch::nn::Module");
  EXPECT_EQ(error_of([] { DistributedDataParallel(TwoLayers(), {.device_ids = {0}}); }),
            "DistributedDataParallel: device_ids is for a module on one GPU, but "
            "distrun::TwoLayersImpl is on the CPU");
  EXPECT_EQ(error_of([] {
              DistributedDataParallel(TwoLayers(), {.device_ids = {0, 1}});
            }),
            "DistributedDataParallel: device_ids has 2 devices; expected one, or none");
  EXPECT_EQ(error_of([] { DistributedDataParallel(TwoLayers(), {.bucket_cap_mb = -1}); }),
            "DistributedDataParallel: bucket_cap_mb is -1; expected a size in MiB, or 0 for one "
            "bucket per parameter");
}

TEST_F(DdpStateMultirankTest, SavesTheModuleForUseWithoutDdp) {
  DistributedDataParallel ddp{TwoLayers()};
  std::stringstream file;
  torch::save(ddp.module(), file);
  auto alone = std::make_shared<TwoLayersImpl>();
  torch::load(alone, file);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(alone->forward(data()).equal(ddp(data())));
  EXPECT_EQ(ddp.named_parameters().begin()->key(), "module.first.weight");
}

}  // namespace
}  // namespace distrun
