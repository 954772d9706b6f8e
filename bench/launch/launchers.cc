#include "bench/launch/launchers.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/os/unique_fd.h"

namespace distrun::bench {

namespace {

// Empty if it is not on PATH.
std::string on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// For torchrun, which requires a port. Another process may take it first; a benchmark can tolerate
// that.
std::string free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), generic, size) != 0 || ::getsockname(fd.get(), generic, &size) != 0) {
    return "29500";
  }
  return std::to_string(ntohs(address.sin_port));
}

// torchrun without flags; empty if it is not installed.
Words torchrun() {
  const std::string python = TORCH_PYTHON;
  if (!python.empty() && ::access(python.c_str(), X_OK) == 0) {
    return {python, "-m", "torch.distributed.run"};
  }
  const std::string program = on_path("torchrun");
  return program.empty() ? Words{} : Words{program};
}

}  // namespace

std::vector<Launcher> find_launchers(const Words& wanted, Words& left_out) {
  const auto is_wanted = [&](const std::string& name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  std::vector<Launcher> found;
  const auto add = [&](Launcher launcher) {
    if (is_wanted(launcher.name)) found.push_back(std::move(launcher));
  };
  add({"floor", [](int workers, const Words& program) {
         return joined({SPAWN_LOOP, std::to_string(workers)}, program);
       }});
  add({"distrun", [](int workers, const Words& program) {
         return joined({DISTRUN_PROGRAM, "launch", "--nproc-per-node", std::to_string(workers)},
                       program);
       }});
  const std::string hydra = on_path("mpiexec.hydra");
  if (!hydra.empty()) {
    // Hydra ignores the exit code of a program that did not call MPI_Init, and waits for the
    // others.
    add({.name = "hydra",
         .command =
             [hydra](int workers, const Words& program) {
               return joined({hydra, "-n", std::to_string(workers)}, program);
             },
         .ends_on_failure = false});
  } else if (is_wanted("hydra")) {
    left_out.emplace_back("hydra: mpiexec.hydra is not on PATH (Debian: mpich)");
  }
  const Words torch = torchrun();
  if (!torch.empty()) {
    add({.name = "torchrun",
         .command =
             [torch](int workers, const Words& program) {
               return joined(joined(torch, {"--no-python", "--master-port", free_port(),
                                            "--nproc-per-node", std::to_string(workers)}),
                             program);
             },
         .workers_max = 64,
         .rounds_max = 3});
  } else if (is_wanted("torchrun")) {
    left_out.emplace_back("torchrun: configure with DISTRUN_TORCH_PYTHON, or put it on PATH");
  }
  return found;
}

}  // namespace distrun::bench
