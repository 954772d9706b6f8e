// Processes write into a tensor of their parent's:
//
//     distrun launch --nproc-per-node 2 build-library/use_sharing
#include <cstdlib>
#include <exception>
#include <iostream>

#include <ATen/ops/zeros.h>
#include <distrun/spawn.h>

void worker(int index, distrun::SpawnArguments& arguments) {
  arguments.tensors.at(0).select(0, index).fill_(index + 1);  // No copy: the parent sees it.
  arguments.queues.at(0).put({{}, "done"});
}
const distrun::SpawnFunction kWorker("worker", worker);

int main() {
  distrun::run_if_spawned();
  try {
    const at::Tensor numbers = at::zeros({2});
    const distrun::TensorQueue told(2);
    distrun::spawn(kWorker, 2, {.arguments = {.tensors = {numbers}, .queues = {told}}});
    const char* const rank = std::getenv("RANK");
    std::cout << "rank " << (rank == nullptr ? "0" : rank) << ": " << told.size()
              << " processes have left " << numbers.sum().item<float>() << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
