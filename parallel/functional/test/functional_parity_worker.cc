// The C++ results of functional_parity_test.py; the Python program next to it computes the same.
#include <fstream>
#include <ios>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/serialize.h>

#include "distrun/functional.h"
#include "distrun/process_group.h"
#include "parallel/test/parity_worker.h"

namespace distrun {
namespace {

namespace F = functional;
using TensorsByName = c10::Dict<std::string, at::Tensor>;

// Returns a tensor that depends on the rank.
at::Tensor value(int index, std::int64_t rows = 2) {
  const at::Tensor numbers = at::arange(rows * 3, at::kDouble).view({rows, 3});
  return at::sin(numbers * 0.3 + get_rank() * 1.7 + index * 0.9).requires_grad_();
}

Tensors values(std::int64_t rows = 2) {
  Tensors all;
  for (int index = 0; index < get_world_size(); ++index) all.push_back(value(index, rows));
  return all;
}

at::Tensor room(std::int64_t rows) { return at::empty({rows, 3}, at::kDouble); }

class FunctionalCases {
 public:
  void add(const std::string& name, const Tensors& inputs, const Tensors& outputs,
           bool is_defined = true) {
    at::Tensor loss = at::zeros({}, at::kDouble), second = loss;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      loss = loss + (get_rank() + 1.0) * (static_cast<double>(i) + 1) * outputs[i].sin().sum();
    }
    const Tensors gradients = torch::autograd::grad({loss}, inputs, {}, /*retain_graph=*/true,
                                                    /*create_graph=*/true);
    for (const at::Tensor& one : gradients) second = second + one.sin().sum();
    second.backward();
    if (is_defined) tell(name + ".y", outputs);
    tell(name + ".x", gradients);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      told_.insert(name + ".xx" + std::to_string(i), inputs[i].grad());
    }
  }

  const TensorsByName& told() const { return told_; }

 private:
  void tell(const std::string& name, const Tensors& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      told_.insert(name + std::to_string(i), tensors[i].detach());
    }
  }

  TensorsByName told_;
};

TensorsByName functional_cases() {
  const int rank = get_rank(), ranks = get_world_size(), last = ranks - 1;
  FunctionalCases cases;
  at::Tensor x = value(0);
  cases.add("all_reduce", {x}, {F::all_reduce(x)});
  x = value(0);
  cases.add("mean", {x}, {F::all_reduce(x, ReduceOp::AVG)});
  x = value(0);
  cases.add("broadcast", {x}, {F::broadcast(x, last)});
  x = value(0);
  cases.add("reduce", {x}, {F::reduce(x, last)}, /*is_defined=*/rank == last);
  x = value(0);
  cases.add("all_gather", {x}, F::all_gather(x));
  x = value(0);
  cases.add("gather", {x}, F::gather(x, last));
  Tensors xs = values();
  cases.add("scatter", xs, {F::scatter(xs, last)});
  xs = values();
  cases.add("reduce_scatter", xs, {F::reduce_scatter(xs)});
  xs = values();
  cases.add("all_to_all", xs, F::all_to_all(xs, xs));
  // Rank r sends r + 1 rows to every rank.
  x = value(0, std::int64_t{rank + 1} * ranks);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(ranks));
  std::iota(rows.begin(), rows.end(), 1);
  const std::vector<std::int64_t> sent(rows.size(), rank + 1);
  const auto all_rows = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  cases.add("all_to_all_single", {x}, {F::all_to_all_single(room(all_rows), x, rows, sent)});
  return cases.told();
}

}  // namespace

void testing::run_functional_parity(const ParityRun& run) {
  const std::vector<char> bytes = torch::pickle_save(functional_cases());
  std::ofstream(run.folder / (run.name + "." + std::to_string(get_rank()) + ".pt"),
                std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace distrun
