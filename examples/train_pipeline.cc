// Trains a network on handwritten digits, whose layers are on different ranks (pipeline
// parallelism):
//
//     distrun launch --nproc-per-node 3 build/examples/train_pipeline examples/data/digits.csv
//
// While one rank computes its layers for some images, the other ranks compute theirs for other
// images.  The results are those of one rank.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include "distrun/pipeline.h"
#include "distrun/process_group.h"
#include "distrun/record.h"
#include "examples/digits.h"

namespace {

using distrun::PipelineResult;
using distrun::PipelineStage;
using examples::Digits;
using torch::nn::Linear;
using torch::nn::ReLU;
using torch::nn::Sequential;

constexpr int kLayers = 6, kEpochs = 10, kMicrobatches = 8;
constexpr int64_t kBatch = 128;

// The layers of this rank.  All ranks create all layers, so that the weights do not depend on the
// number of ranks.
Sequential layers_of(int rank, int ranks) {
  torch::manual_seed(1);
  Sequential mine;
  for (int layer = 0; layer < kLayers; ++layer) {
    const bool is_last = layer == kLayers - 1;
    const Linear linear(64, is_last ? 10 : 64);
    if (layer * ranks / kLayers != rank) continue;
    mine->push_back(linear);
    if (!is_last) mine->push_back(ReLU());
  }
  return mine;
}

void train_and_test(const Digits& data) {
  const int rank = distrun::get_rank(), ranks = distrun::get_world_size();
  if (ranks > kLayers) throw std::runtime_error("there are more ranks than layers");
  const PipelineStage stage(layers_of(rank, ranks), rank, ranks);
  distrun::Schedule1F1B schedule(stage, kMicrobatches,
                                 [](const at::Tensor& output, const at::Tensor& digits) {
                                   return at::cross_entropy_loss(output, digits);
                                 });
  torch::optim::Adam optimizer(stage.module()->parameters(), torch::optim::AdamOptions(0.003));

  const int64_t steps = data.train.digits.size(0) / kBatch;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(epoch));
    const at::Tensor order = at::randperm(data.train.digits.size(0), generator, at::kLong);
    double total = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const at::Tensor batch = order.narrow(0, step * kBatch, kBatch);
      optimizer.zero_grad();
      // The first rank uses the images, and the last rank the digits.
      const PipelineResult result =
          schedule.step({.args = {data.train.images.index_select(0, batch)},
                         .target = data.train.digits.index_select(0, batch)});
      optimizer.step();
      if (stage.is_last()) total += at::stack(result.losses).mean().item<double>();
    }
    if (!stage.is_last()) continue;
    std::printf("epoch %d loss %.4f\n", epoch, total / static_cast<double>(steps));
    std::fflush(stdout);  // A pipe would delay it to the end.
  }

  const PipelineResult result = schedule.eval({.args = {data.test.images}});
  int64_t elements = 0;
  for (const at::Tensor& one : stage.module()->parameters()) elements += one.numel();
  std::printf("rank %d has %lld parameters\n", rank, static_cast<long long>(elements));
  if (!stage.is_last()) return;
  const at::Tensor right = result.outputs[0].argmax(1).eq(data.test.digits);
  std::printf("test_accuracy %.4f\n", right.to(at::kFloat).mean().item<double>());
}

int run(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train_pipeline DIGITS_CSV\n");
    return 2;
  }
  distrun::init_process_group("gloo");
  train_and_test(examples::load(argv[1]));
  distrun::destroy_process_group();
  return 0;
}

}  // namespace

// If a rank fails, the launcher's summary says why.
int main(int argc, char** argv) { return distrun::record(run, argc, argv); }
