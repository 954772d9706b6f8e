// The C++ ranks of ddp_bench.cc: as ddp_ranks.py, with our DDP. Rank 2 prints.
//
//     ddp_ranks ROUNDS OTHERS BACKEND VIEWS SHAPE…
//
// OTHERS says what ranks 0 and 1 are, if they are not Python's: "gloo" for our DDP on that backend,
// "alone" for no DDP. BACKEND is that of ranks 2 and 3. VIEWS is
// "views" if gradients are views of buckets.
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

#include "bench/statistics.h"
#include "distrun/collectives.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/process_group.h"

namespace distrun::bench {
namespace {

using Times = std::vector<double>;  // Seconds.

constexpr int kBatch = 32;

struct Shape {
  int width, layers;
  int steps;  // Per turn.
};

struct BenchNetImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> linears;
  std::vector<torch::nn::BatchNorm1d> norms;

  explicit BenchNetImpl(Shape shape) {
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

// Runs `act` on the two pairs of ranks in turns; the starting pair alternates.
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

// A pair's times, `each` per turn: the slower rank's. Omits the first turn, which fills caches and
// rebuilds buckets.
std::vector<Times> by_turn(const at::Tensor& one, const at::Tensor& other, int each) {
  const at::Tensor both = at::maximum(one, other);
  std::vector<Times> turns;
  for (const at::Tensor& turn : both.split(each)) {
    turns.emplace_back(turn.const_data_ptr<double>(), turn.const_data_ptr<double>() + each);
  }
  turns.erase(turns.begin());
  return turns;
}

// The others' time divided by ours in each round, ascending. The turns of a round are adjacent, so
// other load affects both.
Times ratios(const std::vector<Times>& ours, const std::vector<Times>& others) {
  Times by_round;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    by_round.push_back(median(others[i]) / median(ours[i]));
  }
  std::ranges::sort(by_round);
  return by_round;
}

Times all_of(const std::vector<Times>& turns) {
  Times all;
  for (const Times& turn : turns) all.insert(all.end(), turn.begin(), turn.end());
  return all;
}

// `others`: the name of ranks 0 and 1.
void print_head(const std::string& others) {
  fmt::print("| {:<22} | {:>11} | {:>12} | {:>11} | {:>11} | {:>10} | {:>11} |\n", "",
             "distrun, ms", others + ", ms", "least", "least", others + "/d", "quartiles");
  fmt::print("|{0:-<24}|{0:->12}:|{0:->13}:|{0:->12}:|{0:->12}:|{0:->11}:|{0:->12}:|\n", "");
}

void print_row(const std::string& what, const std::vector<Times>& ours,
               const std::vector<Times>& others) {
  const auto least = [](const Times& times) { return *std::ranges::min_element(times) * 1e3; };
  const Times ratio = ratios(ours, others);
  fmt::print("| {:<22} | {:>11.2f} | {:>12.2f} | {:>11.2f} | {:>11.2f} | {:>10.2f} | {:>11} |\n",
             what, median(all_of(ours)) * 1e3, median(all_of(others)) * 1e3, least(all_of(ours)),
             least(all_of(others)), median(ratio),
             fmt::format("{:.2f}, {:.2f}", ratio[ratio.size() / 4], ratio[ratio.size() * 3 / 4]));
  std::fflush(stdout);
}

// Gathers the times of all ranks, `each` per turn, and prints a row.
void tell(const std::string& what, const Times& times, int each) {
  const at::Tensor mine = at::tensor(times, at::kDouble);
  Tensors all;
  for (int rank = 0; rank < get_world_size(); ++rank) all.push_back(at::empty_like(mine));
  all_gather(all, mine);
  if (get_rank() == 2)
    print_row(what, by_turn(all[2], all[3], each), by_turn(all[0], all[1], each));
}

double seconds_to_construct(const std::shared_ptr<BenchNetImpl>& net, const Group& pair) {
  std::unique_ptr<DistributedDataParallel<BenchNetImpl>> ddp;
  barrier({.group = pair});
  return seconds_of([&] {
    ddp = std::make_unique<DistributedDataParallel<BenchNetImpl>>(
        net, DdpOptions{.process_group = pair});
  });
}

void time_constructions(const std::shared_ptr<BenchNetImpl>& net, const Group& pair, int rounds,
                        int each) {
  Times times;
  take_turns(rounds, [&] {
    for (int i = 0; i < each; ++i) times.push_back(seconds_to_construct(net, pair));
  });
  tell(fmt::format("{:.0f} MB: construction", net->megabytes()), times, each);
}

void time_steps(const std::shared_ptr<BenchNetImpl>& net, Shape shape, int rounds,
                const std::function<at::Tensor(const at::Tensor&)>& forward) {
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const at::Tensor data = at::randn({kBatch, shape.width});
  Times times;
  take_turns(rounds, [&] {
    for (int step = 0; step < shape.steps; ++step) {
      times.push_back(seconds_of([&] {
        for (const at::Tensor& one : net->parameters()) one.mutable_grad().reset();
        forward(data).square().mean().backward();
        optimizer.step();
      }));
    }
  });
  tell(fmt::format("{:.0f} MB: step", net->megabytes()), times, shape.steps);
}

Shape shape_of(const std::string& text) {
  const std::size_t first = text.find('x');
  const std::size_t second = text.find('x', first + 1);
  return {.width = std::stoi(text.substr(0, first)),
          .layers = std::stoi(text.substr(first + 1, second - first - 1)),
          .steps = std::stoi(text.substr(second + 1))};
}

void run(const std::vector<std::string>& arguments) {
  const int rounds = std::stoi(arguments.at(0));
  const std::string& others = arguments.at(1);
  const std::vector pairs = {new_group({{0, 1}}),
                             new_group({{2, 3}}, {.backend = arguments.at(2)})};
  const bool has_views = arguments.at(3) == "views";
  const Group& pair = pairs.at(static_cast<std::size_t>(get_rank()) / 2);
  if (get_rank() == 2) print_head(others);
  for (std::size_t i = 4; i < arguments.size(); ++i) {
    const Shape shape = shape_of(arguments[i]);
    const auto net = std::make_shared<BenchNetImpl>(shape);
    const auto alone = [&](const at::Tensor& x) { return net->forward(x); };
    if (others == "alone" && get_rank() < 2) {
      time_steps(net, shape, rounds, alone);
      continue;
    }
    if (others != "alone") time_constructions(net, pair, rounds, (shape.steps + 3) / 4);
    DistributedDataParallel ddp(net, {.process_group = pair, .gradient_as_bucket_view = has_views});
    time_steps(net, shape, rounds, [&](const at::Tensor& x) { return ddp(x); });
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
