// For programs of ours that link LibTorch: no peer's name is looked up, what is told is its
// address.
//
// LibTorch's store asks for the name of who connects, and a client for its server's.  Their sockets
// are IPv6 ones, and ::ffff:127.0.0.1 is in no /etc/hosts, so DNS is asked even on the loopback: a
// name server that does not answer costs 5 s each time.  LibTorch calls this instead of the C
// library's.
#include <dlfcn.h>
#include <netdb.h>

extern "C" __attribute__((visibility("default"))) int getnameinfo(
    const sockaddr* address, socklen_t address_size, char* host, socklen_t host_size, char* service,
    socklen_t service_size, int flags) {
  static const auto original =
      reinterpret_cast<decltype(&getnameinfo)>(::dlsym(RTLD_NEXT, "getnameinfo"));
  return original(address, address_size, host, host_size, service, service_size,
                  flags | NI_NUMERICHOST);
}
