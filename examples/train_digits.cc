// Trains a small network on handwritten digits, data-parallel over all ranks:
//
//     distrun launch --nproc-per-node 2 build/examples/train_digits examples/data/digits.csv
//
// Each rank computes gradients on its share of every batch, DistributedDataParallel makes
// them the mean of all, and all ranks take the same step.  train_digits.py is the same program in
// Python: same model, split, seeds and order, so ranks of both kinds can train together.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "backends/collectives.h"
#include "backends/process_group.h"
#include "common/record.h"
#include "parallel/distributed_data_parallel.h"

namespace {

constexpr int kEpochs = 10;
constexpr int64_t kBatch = 32;  // Of each rank.

struct Samples {
  at::Tensor images;  // n × 64, float, 0 … 1
  at::Tensor digits;  // n, int64
};

struct Digits {
  Samples train, test;
};

// Every fifth sample is for the test.
Digits load(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path);
  std::vector<float> pixels[2];
  std::vector<int64_t> digits[2];
  std::string line;
  for (int64_t row = 0; std::getline(file, line); ++row) {
    const int part = row % 5 == 0 ? 1 : 0;
    std::istringstream fields(line);
    std::string field;
    std::vector<float> numbers;
    while (std::getline(fields, field, ',')) numbers.push_back(std::stof(field));
    if (numbers.size() != 65) {
      throw std::runtime_error(path + " line " + std::to_string(row + 1) + ": not 65 numbers");
    }
    digits[part].push_back(static_cast<int64_t>(numbers.back()));
    pixels[part].insert(pixels[part].end(), numbers.begin(), numbers.end() - 1);
  }
  const auto samples = [&](int part) {
    return Samples{torch::tensor(pixels[part]).view({-1, 64}) / 16, torch::tensor(digits[part])};
  };
  return {samples(0), samples(1)};
}

struct Net : torch::nn::Module {
  torch::nn::Linear hidden{nullptr}, out{nullptr};

  Net() {
    hidden = register_module("hidden", torch::nn::Linear(64, 32));
    out = register_module("out", torch::nn::Linear(32, 10));
  }

  at::Tensor forward(const at::Tensor& images) { return out(at::relu(hidden(images))); }
};

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
      loss.backward();  // Each rank's gradients become the mean of all.
      optimizer.step();
      total += loss.detach();
    }
    distrun::all_reduce(total);
    if (rank == 0) {
      std::printf("epoch %d loss %.4f\n", epoch,
                  total.item<double>() / static_cast<double>(steps * world_size));
      std::fflush(stdout);  // Through a pipe it would all come at the end.
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

// Where a rank fails, the launcher's summary says why.
int main(int argc, char** argv) { return distrun::record(run, argc, argv); }
