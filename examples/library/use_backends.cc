// Workers count themselves with a collective:
//
//     distrun launch --nproc-per-node 2 build-library/use_backends
#include <exception>
#include <iostream>

#include <ATen/ops/ones.h>
#include <distrun/collectives.h>
#include <distrun/process_group.h>

int main() {
  try {
    distrun::init_process_group("gloo");
    at::Tensor here = at::ones({1});
    distrun::all_reduce(here);
    std::cout << "rank " << distrun::get_rank() << ": " << here.item<float>()
              << " ranks have come\n";
    distrun::barrier();
    distrun::destroy_process_group();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
