// Link this into programs that use LibTorch: getnameinfo() then returns addresses and never asks
// DNS.
//
// LibTorch's store and its clients look up each other's names. Their sockets are IPv6, and
// ::ffff:127.0.0.1 is not in /etc/hosts, so DNS is asked even on loopback: an unresponsive name
// server costs 5 s each time. LibTorch finds this function before the C library's.
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
