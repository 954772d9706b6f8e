// Estimates, on one machine without a network, the traffic of one step of data-parallel training on
// a thousand ranks:
//
//     build/examples/dry_run --world-size 1024 --bandwidth 25
//
//     rank 0 of 1024: one step of 2109450 parameters
//     operation                     calls  payload (bytes)     sent (bytes)     seconds
//     all_reduce                        2          8437800         16859120    0.000674
//     all_gather_into_tensor            1                8             8184    0.000000
//     total                             3          8437808         16867304    0.000675
//
// The backend "fake" (distrun/fake.h says how it counts bytes) stands for the other ranks: it
// computes nothing for them, and every collective returns at once.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Functions.h>
#include <CLI/CLI.hpp>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/fake.h"
#include "distrun/process_group.h"

namespace {

struct Options {
  int rank = 0;
  int world_size = 1024;
  int64_t width = 1024;
  int64_t layers = 2;
  int64_t batch = 32;
  double bandwidth = 25;  // GB/s per rank, in each direction.
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Tells what a step of data-parallel training would send: see examples/dry_run.cc.");
  app.add_option("--world-size", options.world_size, "ranks of the run")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--rank", options.rank, "the rank that this is")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--width", options.width, "numbers in a layer")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--layers", options.layers, "hidden layers")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "samples of each rank")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--bandwidth", options.bandwidth, "of one rank's network, in GB/s")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

struct Mlp : torch::nn::Module {
  std::vector<torch::nn::Linear> hidden;
  torch::nn::Linear out{nullptr};

  Mlp(int64_t width, int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) {
      hidden.push_back(
          register_module("hidden" + std::to_string(i), torch::nn::Linear(width, width)));
    }
    out = register_module("out", torch::nn::Linear(width, 10));
  }

  at::Tensor forward(at::Tensor x) {
    for (auto& layer : hidden) x = at::relu(layer(x));
    return out(x);
  }
};

// The second step rearranges the gradients in buckets; the third and all later ones are alike.
int64_t take_a_step(const Options& options) {
  const auto net = std::make_shared<Mlp>(options.width, options.layers);
  distrun::DistributedDataParallel ddp(net);
  torch::optim::SGD optimizer(ddp.parameters(), torch::optim::SGDOptions(0.1));
  at::Tensor loss;
  for (int step = 1; step <= 3; ++step) {
    distrun::reset_wire_traffic_of_all_groups();
    optimizer.zero_grad();
    loss = at::cross_entropy_loss(ddp(at::randn({options.batch, options.width})),
                                  at::randint(10, {options.batch}, at::TensorOptions(at::kLong)));
    loss.backward();
    optimizer.step();
  }

  // Every rank's loss and largest gradient, for logging.
  at::Tensor largest = at::zeros({});
  int64_t parameters = 0;
  for (const at::Tensor& one : net->parameters()) {
    largest = at::maximum(largest, one.grad().abs().max());
    parameters += one.numel();
  }
  const at::Tensor metrics = at::empty({options.world_size, 2});
  distrun::all_gather_into_tensor(metrics, at::stack({loss.detach(), largest}).view({1, 2}));
  return parameters;
}

void print(const distrun::WireTraffic& one, double bandwidth) {
  const auto most = static_cast<double>(std::max(one.sent, one.received));
  std::printf("%-28s %6lld %16lld %16lld %11.6f\n", one.operation.c_str(),
              static_cast<long long>(one.calls), static_cast<long long>(one.payload),
              static_cast<long long>(one.sent), most / (bandwidth * 1e9));
}

void print_all(const Options& options, int64_t parameters) {
  std::printf("rank %d of %d: one step of %lld parameters\n", options.rank, options.world_size,
              static_cast<long long>(parameters));
  std::printf("%-28s %6s %16s %16s %11s\n", "operation", "calls", "payload (bytes)", "sent (bytes)",
              "seconds");
  distrun::WireTraffic total{.operation = "total"};
  for (const distrun::WireTraffic& one : distrun::wire_traffic_of_all_groups()) {
    print(one, options.bandwidth);
    total.calls += one.calls;
    total.payload += one.payload;
    total.sent += one.sent;
    total.received += one.received;
  }
  print(total, options.bandwidth);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  try {
    distrun::init_process_group(
        {.backend = "fake", .rank = options.rank, .world_size = options.world_size});
    torch::manual_seed(1);
    print_all(options, take_a_step(options));
    distrun::destroy_process_group();
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "dry_run: %s\n", error.what_without_backtrace());
    return 1;
  }
  return 0;
}
