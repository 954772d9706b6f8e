// LibTorch's store on libuv as a process of its own: prints "PORT NAME", and serves until its
// stdin ends.
#include <iostream>

#include <dlfcn.h>
#include <netdb.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/headeronly/version.h>

// LibTorch's server asks for the name of every client that connects, and nobody is served
// meanwhile. Its socket is IPv6, so that even a client on the loopback is not found in /etc/hosts
// and DNS is asked.  How fast that answers is not what is compared: LibTorch calls this instead,
// and the "name" is the address.
extern "C" int getnameinfo(const sockaddr* address, socklen_t address_size, char* host,
                           socklen_t host_size, char* service, socklen_t service_size, int flags) {
  static const auto original =
      reinterpret_cast<decltype(&getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  return original(address, address_size, host, host_size, service, service_size,
                  flags | NI_NUMERICHOST);
}

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
