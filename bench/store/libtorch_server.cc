// LibTorch's store on libuv as a process: prints "PORT NAME", and serves until its stdin ends.
#include <iostream>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/headeronly/version.h>

int main() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  options.useLibUV = true;
  const c10d::TCPStore store("127.0.0.1", options);
  if (!store.isLibUvBackend()) {
    std::cerr << "libtorch_server: this LibTorch has no libuv\n";
    return 1;
  }
  std::cout << store.getPort() << " LibTorch " << TORCH_VERSION << std::endl;
  std::cin.get();
}
