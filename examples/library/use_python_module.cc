// A shared library that contains distrun and that Python loads next to its own torch
// (use_python_module.py).
#include <exception>
#include <iostream>
#include <memory>

#include <distrun/collectives.h>
#include <distrun/distributed_data_parallel.h>
#include <distrun/process_group.h>
#include <distrun/spawn.h>
#include <torch/nn/modules/linear.h>

// The number of ranks, computed by a step of training; -1 if that failed.
extern "C" int ranks_that_train() {
  try {
    distrun::init_process_group("gloo");
    distrun::DistributedDataParallel ddp(std::make_shared<torch::nn::LinearImpl>(1, 1));
    ddp(at::ones({1, 1})).sum().backward();
    at::Tensor sum = ddp.module()->weight.grad().clone();  // 1, the mean of all ranks.
    distrun::all_reduce(sum);
    distrun::barrier();
    distrun::destroy_process_group();
    return static_cast<int>(sum.item<float>());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return -1;
  }
}
