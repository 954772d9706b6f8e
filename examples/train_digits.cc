// Trains a small network on handwritten digits, data-parallel over all ranks:
//
//     distrun launch --nproc-per-node 2 build/examples/train_digits examples/data/digits.csv
//
// Each rank computes gradients on its share of every batch.  DistributedDataParallel averages them,
// so all ranks take the same step.  train_digits.py is the same program in Python: same model,
// split, seeds and order, so ranks of both kinds can train together.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/process_group.h"
#include "distrun/record.h"
#include "examples/digits.h"

namespace {

using examples::Digits;
using examples::load;
using examples::Net;

constexpr int kEpochs = 10;
constexpr int64_t kBatch = 32;  // Per rank.

void train_and_test(const std::string& path) {
  const Digits data = load(path);
  const int rank = distrun::get_rank(), world_size = distrun::get_world_size();

  torch::manual_seed(1);
  distrun::DistributedDataParallel net(std::make_shared<Net>());
  torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));

  const int64_t step_samples = kBatch * world_size;
  const int64_t steps = data.train.digits.size(0) / step_samples;
  if (steps == 0) throw std::runtime_error("too many ranks for a batch of each");
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(epoch));
    const at::Tensor order = at::randperm(data.train.digits.size(0), generator, at::kLong);
    at::Tensor total = at::zeros({});
    for (int64_t step = 0; step < steps; ++step) {
      const at::Tensor mine = order.narrow(0, step * step_samples + rank * kBatch, kBatch);
      optimizer.zero_grad();
      const at::Tensor loss = at::cross_entropy_loss(net(data.train.images.index_select(0, mine)),
                                                     data.train.digits.index_select(0, mine));
      loss.backward();  // Averages the gradients of all ranks.
      optimizer.step();
      total += loss.detach();
    }
    distrun::all_reduce(total);
    if (rank == 0) {
      std::printf("epoch %d loss %.4f\n", epoch,
                  total.item<double>() / static_cast<double>(steps * world_size));
      std::fflush(stdout);  // A pipe would delay it to the end.
    }
  }

  const at::Tensor right = net(data.test.images).argmax(1).eq(data.test.digits);
  std::printf("rank %d test_accuracy %.4f\n", rank, right.to(at::kFloat).mean().item<double>());
}

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_digits DIGITS_CSV\n");
    return 2;
  }
  distrun::init_process_group("gloo");
  train_and_test(argv[1]);
  distrun::destroy_process_group();
  return 0;
}

}  // namespace

// If a rank fails, the launcher's summary says why.
int main(int argc, char** argv) { return distrun::record(run, argc, argv); }
