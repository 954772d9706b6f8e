// Ranks fit one line through points, of which each has a part:
//
//     distrun launch --nproc-per-node 2 build-library/use_parallel
#include <cstdio>
#include <memory>

#include <distrun/distributed_data_parallel.h>
#include <distrun/process_group.h>
#include <distrun/record.h>
#include <torch/torch.h>

struct Net : torch::nn::Module {
  torch::nn::Linear line{register_module("line", torch::nn::Linear(1, 1))};
  at::Tensor forward(const at::Tensor& x) { return line(x); }
};

int run(int, char**) {
  distrun::init_process_group("gloo");
  torch::manual_seed(distrun::get_rank());  // Each rank has points of its own.
  distrun::DistributedDataParallel ddp(std::make_shared<Net>());
  torch::optim::SGD optimizer(ddp.parameters(), /*lr=*/0.5);
  for (int step = 0; step < 200; ++step) {
    const at::Tensor x = torch::rand({32, 1});
    optimizer.zero_grad();
    torch::mse_loss(ddp(x), 3 * x + 1).backward();  // Gradients: the mean of all ranks.
    optimizer.step();
  }
  const Net& net = *ddp.module();
  std::printf("rank %d: %.2f x + %.2f\n", distrun::get_rank(), net.line->weight.item<double>(),
              net.line->bias.item<double>());
  distrun::destroy_process_group();
  return 0;
}

int main(int argc, char** argv) { return distrun::record(run, argc, argv); }
