// Ranks with uneven shares of the data train one model: rank r has r + 1 parts of it.
//
//     distrun launch --nproc-per-node 3 build/examples/train_uneven examples/data/digits.csv
//
// A rank that finishes its share early joins in the collectives of the others through Join; without
// it they would wait forever in backward().  The ranks take fewer steps than one rank with all
// data, and the model that they train has the same accuracy.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <ATen/Functions.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "distrun/distributed_data_parallel.h"
#include "distrun/join.h"
#include "distrun/process_group.h"
#include "distrun/record.h"
#include "examples/digits.h"

namespace {

using examples::Digits;
using examples::Net;
using examples::Samples;

constexpr int kEpochs = 35;
constexpr int64_t kBatch = 32;

// Rank 0 has the first part, rank 1 the next two, and so on.
Samples share_of(int rank, int world_size, const Samples& all) {
  const int64_t parts = world_size * (world_size + 1) / 2;
  const int64_t part = all.digits.size(0) / parts;
  const int64_t first = rank * (rank + 1) / 2 * part, count = (rank + 1) * part;
  if (part == 0) throw std::runtime_error("too many ranks for so few samples");
  return {all.images.narrow(0, first, count), all.digits.narrow(0, first, count)};
}

void train_and_test(const std::string& path) {
  const Digits data = examples::load(path);
  const int rank = distrun::get_rank();
  const Samples mine = share_of(rank, distrun::get_world_size(), data.train);

  torch::manual_seed(1);
  distrun::DistributedDataParallel net(std::make_shared<Net>());
  distrun::Join join({net});

  int steps = 0;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    // A new optimizer: after different numbers of steps, ranks would have different momenta.
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    join.run([&] {
      for (int64_t first = 0; first < mine.digits.size(0); first += kBatch, ++steps) {
        const int64_t count = std::min(kBatch, mine.digits.size(0) - first);
        optimizer.zero_grad();
        const at::Tensor out = net(mine.images.narrow(0, first, count));
        at::cross_entropy_loss(out, mine.digits.narrow(0, first, count)).backward();
        optimizer.step();
      }
    });
  }

  const at::Tensor right = net(data.test.images).argmax(1).eq(data.test.digits);
  std::printf("rank %d steps %d test_accuracy %.4f\n", rank, steps,
              right.to(at::kFloat).mean().item<double>());
}

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_uneven DIGITS_CSV\n");
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
