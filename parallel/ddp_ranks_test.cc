// DistributedDataParallel, as every rank of a real run sees it:
//
//     distrun launch --nproc-per-node 2 build/tests/ddp_ranks_test
//
// Every rank runs every test, in the same order; the run fails if one rank does.
#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include "backends/ranks_testing.h"
#include "parallel/distributed_data_parallel.h"

namespace distrun {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr}, unused{nullptr};
  NetImpl() {
    first = register_module("first", torch::nn::Linear(3, 4));
    second = register_module("second", torch::nn::Linear(4, 2));
  }
  at::Tensor forward(const at::Tensor& x) { return second(at::relu(first(x))); }
};
TORCH_MODULE(Net);

// A part for each rank: rank r uses parts[r] only, nobody the last.
struct PartsImpl : torch::nn::Module {
  std::vector<at::Tensor> parts;
  explicit PartsImpl(int ranks) {
    for (int i = 0; i <= ranks; ++i) {
      parts.push_back(register_parameter("part" + std::to_string(i), at::ones({2})));
    }
  }
  at::Tensor forward(int part) { return parts[static_cast<std::size_t>(part)].sum(); }
};

class DdpRanksTest : public RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    torch::manual_seed(get_rank());
  }

  static std::shared_ptr<NetImpl> net() { return std::make_shared<NetImpl>(); }

  static at::Tensor data_of(int rank) { return at::arange(6, at::kFloat).view({2, 3}) + rank; }

  // What backward() has to leave: the mean of what the ranks would have alone.
  static Tensors mean_gradients(NetImpl& net) {
    const auto alone = std::make_shared<NetImpl>();
    {
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < alone->parameters().size(); ++i) {
        alone->parameters()[i].copy_(net.parameters()[i]);
      }
    }
    for (int rank = 0; rank < get_world_size(); ++rank) {
      alone->forward(data_of(rank)).pow(2).sum().backward();
    }
    Tensors gradients;
    for (const at::Tensor& one : alone->parameters()) {
      gradients.push_back(one.grad() / get_world_size());
    }
    return gradients;
  }

  static void expect_gradients(NetImpl& net, const Tensors& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(net.parameters()[i].grad().defined()) << i;
      EXPECT_TRUE(net.parameters()[i].grad().allclose(expected[i])) << i;
    }
  }

  static void expect_mean_gradients(const DdpOptions& options) {
    DistributedDataParallel ddp(net(), options);
    for (int iteration = 0; iteration < 3; ++iteration) {
      SCOPED_TRACE(iteration);
      ddp.zero_grad(/*set_to_none=*/!options.gradient_as_bucket_view);
      const Tensors expected = mean_gradients(*ddp.module());
      ddp(data_of(get_rank())).pow(2).sum().backward();
      expect_gradients(*ddp.module(), expected);
      torch::NoGradGuard no_grad;
      for (at::Tensor& one : ddp.parameters()) one.sub_(one.grad(), 0.01);
    }
  }
};

TEST_F(DdpRanksTest, AllRanksBeginWithWhatTheFirstHas) {
  DistributedDataParallel ddp(net());
  for (const at::Tensor& one : ddp.parameters()) {
    const at::Tensor of_first = one.detach().clone();
    broadcast(of_first, 0);
    EXPECT_TRUE(one.equal(of_first));
  }
}

TEST_F(DdpRanksTest, GradientsAreTheMeanOfAllRanks) { expect_mean_gradients({}); }
TEST_F(DdpRanksTest, SmallBucketsMakeNoDifference) { expect_mean_gradients({.bucket_cap_mb = 0}); }
TEST_F(DdpRanksTest, ViewsOfBucketsMakeNoDifference) {
  expect_mean_gradients({.gradient_as_bucket_view = true});
}
TEST_F(DdpRanksTest, AWalkThroughTheGraphMakesNoDifference) {
  expect_mean_gradients({.find_unused_parameters = true});
}
TEST_F(DdpRanksTest, AStaticGraphMakesNoDifference) {
  expect_mean_gradients({.static_graph = true});
}
TEST_F(DdpRanksTest, AGroupOfSomeTrainsWithoutTheOthers) {
  const Group first = new_group({{0}});
  if (get_rank() != 0) {
    EXPECT_THROW(DistributedDataParallel(net(), {.process_group = first}), c10::ValueError);
    return;
  }
  DistributedDataParallel ddp(net(), {.process_group = first});
  ddp(data_of(0)).pow(2).sum().backward();
  const Tensors got = {ddp.parameters()[0].grad().clone()};
  ddp.module()->zero_grad();
  ddp.module()->forward(data_of(0)).pow(2).sum().backward();
  EXPECT_TRUE(got[0].allclose(ddp.parameters()[0].grad()));
}

}  // namespace
}  // namespace distrun
