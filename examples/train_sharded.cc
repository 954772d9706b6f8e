// Trains a network on handwritten digits, whose parameters are divided among the ranks (FSDP):
//
//     distrun launch --nproc-per-node 4 build/examples/train_sharded examples/data/digits.csv
//
// With a second argument, layers are divided, too (tensor parallelism): with 2 on 4 ranks, each
// pair of ranks computes each layer together, and both pairs share the parameters and the batch:
//
//     distrun launch --nproc-per-node 4 build/examples/train_sharded examples/data/digits.csv 2
//
// The results are those of one rank, because each batch has the same 128 digits on any number of
// ranks.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include "distrun/collectives.h"
#include "distrun/device_mesh.h"
#include "distrun/fully_sharded_data_parallel.h"
#include "distrun/process_group.h"
#include "distrun/record.h"
#include "distrun/tensor_parallel.h"
#include "examples/digits.h"

namespace {

using distrun::ColwiseParallel;
using distrun::DeviceMesh;
using distrun::FsdpOptions;
using distrun::FullyShardedDataParallel;
using distrun::RowwiseParallel;
using examples::Digits;

constexpr int kEpochs = 10;
constexpr int64_t kBatch = 128;  // Of all ranks.

// The outputs of the first layer are the inputs of the second, so they need not be gathered.
struct BlockImpl : torch::nn::Module {
  ColwiseParallel wide{nullptr};
  RowwiseParallel narrow{nullptr};
  explicit BlockImpl(const DeviceMesh& tp) {
    wide = register_module("wide", ColwiseParallel(torch::nn::Linear(64, 128), tp));
    narrow = register_module("narrow", RowwiseParallel(torch::nn::Linear(128, 64), tp));
  }
  at::Tensor forward(const at::Tensor& x) { return x + narrow(at::relu(wide(x))); }
};
TORCH_MODULE(Block);

// Each block is a unit: only its parameters and those of the next one are gathered at a time.
struct NetImpl : torch::nn::Module {
  std::shared_ptr<FullyShardedDataParallel<Block>> first, second;
  torch::nn::Linear out{nullptr};
  NetImpl(const DeviceMesh& tp, const FsdpOptions& options) {
    const auto unit = [&] {
      return std::make_shared<FullyShardedDataParallel<Block>>(Block(tp), options);
    };
    first = register_module("first", unit());
    second = register_module("second", unit());
    out = register_module("out", torch::nn::Linear(64, 10));
  }
  at::Tensor forward(const at::Tensor& x) { return out(second->forward(first->forward(x))); }
};
TORCH_MODULE(Net);

void train_and_test(const Digits& data, int64_t tensor_parallel) {
  const int64_t ranks = distrun::get_world_size();
  if (tensor_parallel < 1 || ranks % tensor_parallel != 0) {
    throw std::runtime_error("cannot divide " + std::to_string(ranks) + " ranks into groups of " +
                             std::to_string(tensor_parallel));
  }
  if (kBatch % (ranks / tensor_parallel) != 0) {
    throw std::runtime_error("cannot divide a batch of " + std::to_string(kBatch) + " among " +
                             std::to_string(ranks / tensor_parallel) + " ranks or groups");
  }
  const DeviceMesh mesh =
      distrun::init_device_mesh(at::kCPU, {ranks / tensor_parallel, tensor_parallel}, {"dp", "tp"});
  const int64_t share = kBatch / mesh.size(0), place = mesh.get_local_rank("dp");

  torch::manual_seed(1);
  const FsdpOptions options{.process_group = mesh.get_group("dp")};
  FullyShardedDataParallel<Net> net(Net(mesh["tp"], options), options);
  torch::optim::Adam optimizer(net.parameters(), torch::optim::AdamOptions(0.003));

  const int64_t steps = data.train.digits.size(0) / kBatch;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(epoch));
    const at::Tensor order = at::randperm(data.train.digits.size(0), generator, at::kLong);
    at::Tensor total = at::zeros({});
    for (int64_t step = 0; step < steps; ++step) {
      const at::Tensor mine = order.narrow(0, step * kBatch + place * share, share);
      optimizer.zero_grad();
      const at::Tensor loss = at::cross_entropy_loss(net(data.train.images.index_select(0, mine)),
                                                     data.train.digits.index_select(0, mine));
      loss.backward();  // Averages the gradients; each rank keeps those of its shard.
      optimizer.step();
      total += loss.detach();
    }
    distrun::all_reduce(total);
    if (distrun::get_rank() == 0) {
      std::printf("epoch %d loss %.4f\n", epoch,
                  total.item<double>() / static_cast<double>(steps * ranks));
      std::fflush(stdout);  // A pipe would delay it to the end.
    }
  }

  const at::NoGradGuard no_grad;
  const at::Tensor right = net(data.test.images).argmax(1).eq(data.test.digits);
  int64_t elements = 0;
  for (const auto& shard : net.shards()) elements += shard.values.numel();
  std::printf("rank %d test_accuracy %.4f with %lld parameters of its own\n", distrun::get_rank(),
              right.to(at::kFloat).mean().item<double>(), static_cast<long long>(elements));
}

int run(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: train_sharded DIGITS_CSV [RANKS_FOR_EACH_LAYER]\n");
    return 2;
  }
  distrun::init_process_group("gloo");
  train_and_test(examples::load(argv[1]), argc == 3 ? std::atoi(argv[2]) : 1);
  distrun::destroy_process_group();
  return 0;
}

}  // namespace

// If a rank fails, the launcher's summary says why.
int main(int argc, char** argv) { return distrun::record(run, argc, argv); }
