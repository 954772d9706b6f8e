// ServerProcess runs a store in a separate process and measures its cost.
//
//     ServerProcess server("build/bench/distrun_server");
//     BenchStoreClient client(server.port());
//     …
//     server.cpu();                                   // CPU time of all its threads
//
// The program prints "PORT NAME" as its first line and serves until its stdin ends. It dies with
// this process. Methods throw std::runtime_error. Construct it before any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <sys/types.h>

#include "common/os/unique_fd.h"

namespace distrun::bench {

class ServerProcess {
 public:
  explicit ServerProcess(const std::string& program);
  ~ServerProcess();  // Closes its stdin; after 5 s, kills it.

  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  const std::string& name() const { return name_; }

  // CPU time of the idle server: the kernel updates a thread's figure when it sleeps.
  std::chrono::nanoseconds cpu() const;

  std::size_t resident_kib() const;

 private:
  void read_first_line(int fd);
  void end();

  pid_t pid_ = -1;
  UniqueFd input_;  // The writing end of its stdin.
  std::uint16_t port_ = 0;
  std::string name_;
};

}  // namespace distrun::bench
