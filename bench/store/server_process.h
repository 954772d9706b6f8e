// ServerProcess is a store in a process of its own, and what it has cost so far.
//
//     ServerProcess server("build/bench/distrun_server");
//     BenchStoreClient client(server.port());
//     …
//     server.cpu();                                   // of all its threads
//
// The program prints "PORT NAME" as its first line and serves until its stdin ends.  It dies with
// this process.  Constructor and readers throw std::runtime_error.  Make it before any thread.
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
  ~ServerProcess();  // Ends it: by the end of its stdin, and else by SIGKILL.

  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  std::uint16_t port() const { return port_; }
  const std::string& name() const { return name_; }

  // The CPU time it has used, once it has nothing more to do: the kernel brings the figure of a
  // thread up to date when that sleeps.
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
