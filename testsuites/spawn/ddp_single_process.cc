#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>
#include <torch/optim/adam.h>

#include "distrun/distributed_data_parallel.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

// Three layers; forward() returns the loss.
struct RecurrentNetImpl : torch::nn::Cloneable<RecurrentNetImpl> {
  static constexpr int64_t kWidth = 256;
  torch::nn::LSTM lstm{nullptr};
  torch::nn::Linear h2o{nullptr};

  RecurrentNetImpl() { reset(); }
  void reset() override {
    lstm = register_module(
        "lstm",
        torch::nn::LSTM(torch::nn::LSTMOptions(kWidth, kWidth).num_layers(3).batch_first(true)));
    h2o = register_module("h2o", torch::nn::Linear(kWidth, kWidth));
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& y) {
    lstm->flatten_parameters();
    return at::mse_loss(h2o(std::get<0>(lstm->forward(x))), y);
  }
};

// In a group of one rank, DDP must not change the network's results.
class DistributedDataParallelSingleProcessTest : public DefaultGroupTest {
 protected:
  // Gradients are never zeroed, as in the original.
  template <class Net, class... Inputs>
  static void train(const std::shared_ptr<Net>& net, c10::Device device, const Inputs&... inputs) {
    net->to(device);
    auto copy = std::dynamic_pointer_cast<Net>(net->clone());
    DdpOptions options;
    if (device.is_cuda()) options.device_ids = {device};
    DistributedDataParallel ddp(copy, options);
    EXPECT_TENSORS_CLOSE(ddp.parameters(), net->parameters());

    const auto adam = torch::optim::AdamOptions(0.001);
    torch::optim::Adam net_steps(net->parameters(), adam), ddp_steps(ddp.parameters(), adam);
    for (int i = 0; i < 10; ++i) {
      net->forward(inputs.to(device)...).sum().backward();
      ddp(inputs.to(device)...).sum().backward();
      net_steps.step();
      ddp_steps.step();
    }
    EXPECT_TENSORS_CLOSE(ddp.parameters(), net->parameters());
  }

  static void train_linear(c10::Device device) {
    train(torch::nn::Linear(2, 2).ptr(), device, at::randn({30, 2}));
  }

  // One thread: several would spin while they wait, which is slow on busy cores.
  static void train_recurrent(c10::Device device) {
    at::set_num_threads(1);
    constexpr int64_t kBatch = 12, kLength = 100, kWidth = RecurrentNetImpl::kWidth;
    train(std::make_shared<RecurrentNetImpl>(), device, at::randn({kBatch, kLength, kWidth}),
          at::rand({kBatch, kLength, kWidth}));
  }
};

// With one rank, nothing is faked.
DISTRIBUTED_TEST(spawn, DistributedDataParallelSingleProcessTest, test_cpu,
                 {.ranks = 1, .backends = {"gloo", "fake"}}) {
  train_linear(cpu());
}
DISTRIBUTED_TEST(spawn, DistributedDataParallelSingleProcessTest, test_cuda,
                 {.ranks = 1, .min_gpus = 1}) {
  train_linear(gpu());
}

DISTRIBUTED_TEST(spawn, DistributedDataParallelSingleProcessTest, test_rnn,
                 {.ranks = 1, .backends = {"gloo", "fake"}}) {
  train_recurrent(cpu());
}
DISTRIBUTED_TEST(spawn, DistributedDataParallelSingleProcessTest, test_rnn_cuda,
                 {.ranks = 1, .min_gpus = 1}) {
  train_recurrent(gpu());
}

}  // namespace
}  // namespace distrun
