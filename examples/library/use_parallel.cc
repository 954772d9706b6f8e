// Ranks fit one line through points, of which each has a part:
//
//     distrun launch --nproc-per-node 2 build-library/use_parallel
#include <cstdio>

#include <distrun/distributed_data_parallel.h>
#include <distrun/process_group.h>
#include <distrun/record.h>
#include <torch/torch.h>

int run(int, char**) {
  distrun::init_process_group("auto");      // Shared memory within a host, Gloo between hosts.
  torch::manual_seed(distrun::get_rank());  // Each rank draws its own points.
  torch::nn::Linear line(1, 1);
  distrun::DistributedDataParallel ddp(line);
  torch::optim::SGD optimizer(ddp.parameters(), /*lr=*/0.5);
  for (int step = 0; step < 200; ++step) {
    const at::Tensor x = torch::rand({32, 1});
    optimizer.zero_grad();
    torch::mse_loss(ddp(x), 3 * x + 1).backward();  // Averages the gradients of all ranks.
    optimizer.step();
  }
  std::printf("rank %d: %.2f x + %.2f\n", distrun::get_rank(), line->weight.item<double>(),
              line->bias.item<double>());
  distrun::destroy_process_group();
  return 0;
}

int main(int argc, char** argv) { return distrun::record(run, argc, argv); }
