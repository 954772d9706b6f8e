// The ranks in C++ of ddp_bench.cc: what ddp_ranks.py does, with our DDP.  The first of them
// prints.
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "backends/collectives.h"
#include "backends/process_group.h"
#include "bench/statistics.h"
#include "parallel/distributed_data_parallel.h"

namespace distrun::bench {
namespace {

using Times = std::vector<double>;  // Seconds.

constexpr int kBatch = 32;

struct Shape {
  int width, layers;
};

struct NetImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> linears;
  std::vector<torch::nn::BatchNorm1d> norms;

  explicit NetImpl(Shape shape) {
    for (int i = 0; i < shape.layers; ++i) {
      const std::string number = std::to_string(i);
      linears.push_back(
          register_module("linear" + number, torch::nn::Linear(shape.width, shape.width)));
      norms.push_back(register_module("norm" + number, torch::nn::BatchNorm1d(shape.width)));
    }
  }

  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < linears.size(); ++i) x = at::relu(norms[i](linears[i](x)));
    return x;
  }

  double megabytes() const {
    double bytes = 0;
    for (const at::Tensor& one : parameters()) bytes += static_cast<double>(one.nbytes());
    return bytes / 1e6;
  }
};

// The two pairs of ranks one after the other; who begins changes.
void take_turns(int rounds, const std::function<void()>& act) {
  for (int turn = 0; turn < 2 * rounds; ++turn) {
    barrier();
    if ((turn / 2 + turn) % 2 == get_rank() / 2) act();
  }
  barrier();
}

double seconds_of(const std::function<void()>& act) {
  const auto start = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of a pair, without the first round: what the slower rank took.
Times slower(const at::Tensor& one, const at::Tensor& other, int warm_up) {
  const at::Tensor both = at::maximum(one, other);
  const double* begin = both.const_data_ptr<double>();
  return {begin + warm_up, begin + both.numel()};
}

void print_row(const std::string& what, const Times& ours, const Times& pythons) {
  const auto least = [](const Times& times) { return *std::ranges::min_element(times) * 1e3; };
  const double ms = median(ours) * 1e3;
  const double python_ms = median(pythons) * 1e3;
  fmt::print("| {:<22} | {:>9.2f} | {:>9.2f} | {:>8.2f} | {:>9.2f} | {:>9.2f} | {:>8.2f} |\n", what,
             ms, python_ms, python_ms / ms, least(ours), least(pythons),
             least(pythons) / least(ours));
  std::fflush(stdout);
}

void print_head() {
  fmt::print("| {:<22} | {:>9} | {:>9} | {:>8} | {:>9} | {:>9} | {:>8} |\n", "median and least, ms",
             "distrun", "Python", "Python/d", "distrun", "Python", "Python/d");
  fmt::print("|{0:-<24}|{0:->10}:|{0:->10}:|{0:->9}:|{0:->10}:|{0:->10}:|{0:->9}:|\n", "");
}

// Gathers what all ranks have measured.  `warm_up`: how many of them are not counted.
void tell(const std::string& what, const Times& times, int warm_up) {
  const at::Tensor mine = at::tensor(times, at::kDouble);
  Tensors all;
  for (int rank = 0; rank < get_world_size(); ++rank) all.push_back(at::empty_like(mine));
  all_gather(all, mine);
  if (get_rank() != 2) return;
  print_row(what, slower(all[2], all[3], warm_up), slower(all[0], all[1], warm_up));
}

void time_constructions(const std::shared_ptr<NetImpl>& net, const Group& pair, int rounds) {
  Times times;
  take_turns(rounds, [&] {
    std::unique_ptr<DistributedDataParallel<NetImpl>> ddp;
    times.push_back(seconds_of([&] {
      ddp = std::make_unique<DistributedDataParallel<NetImpl>>(net,
                                                               DdpOptions{.process_group = pair});
    }));
  });
  tell(fmt::format("{:.0f} MB: construction", net->megabytes()), times, 1);
}

void time_steps(const std::shared_ptr<NetImpl>& net, int width, const Group& pair, int rounds,
                int steps) {
  DistributedDataParallel ddp(net, {.process_group = pair});
  torch::optim::SGD optimizer(ddp.parameters(), 0.01);
  const at::Tensor data = at::randn({kBatch, width});
  Times times;
  take_turns(rounds, [&] {
    for (int step = 0; step < steps; ++step) {
      times.push_back(seconds_of([&] {
        optimizer.zero_grad();
        ddp(data).square().mean().backward();
        optimizer.step();
      }));
    }
  });
  tell(fmt::format("{:.0f} MB: step", net->megabytes()), times, steps);
}

Shape shape_of(const std::string& text) {
  const std::size_t x = text.find('x');
  return {.width = std::stoi(text.substr(0, x)), .layers = std::stoi(text.substr(x + 1))};
}

void run(const std::vector<std::string>& arguments) {
  const int rounds = std::stoi(arguments.at(0));
  const int steps = std::stoi(arguments.at(1));
  const std::vector pairs = {new_group({{0, 1}}), new_group({{2, 3}})};
  const Group& pair = pairs.at(static_cast<std::size_t>(get_rank()) / 2);
  if (get_rank() == 2) print_head();
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const Shape shape = shape_of(arguments[i]);
    const auto net = std::make_shared<NetImpl>(shape);
    time_constructions(net, pair, rounds);
    time_steps(net, shape.width, pair, rounds, steps);
  }
  barrier();
}

}  // namespace
}  // namespace distrun::bench

int main(int argc, char** argv) {
  at::set_num_threads(1);
  distrun::init_process_group("gloo");
  distrun::bench::run({argv + 1, argv + argc});
  distrun::destroy_process_group();
}
