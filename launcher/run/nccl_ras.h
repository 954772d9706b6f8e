// NcclRas asks the RAS subsystem of NCCL what is wrong with the communicators of the workers.
//
//     NcclRas ras(plan);
//     ras.ask(ras_processes(workers.running()), 2s);
//     while (ras.is_waiting()) …     // Serve the store meanwhile.
//     ras.line();                    // "communicator of 4 ranks (…): …"
//
// Each process that uses NCCL 2.24 or newer listens at the same port of loopback; the processes of
// a user share the port (SO_REUSEPORT), and the kernel chooses one for each connection. Each of
// them answers for the whole job. Therefore nothing is asked if a process listens there that is not
// one of the given ones: it may belong to another job. If the chosen process does not answer,
// because it is stopped, another connection may reach another one.
//
// No method blocks. Thread safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "evidence/nccl/ras_report.h"
#include "launcher/plan/plan.h"
#include "launcher/run/worker_pool.h"

namespace distrun {

struct RasProcess {
  int rank = 0;
  pid_t pid = 0;
  std::uint16_t port = 0;  // At which RAS would listen.
};

// Those in which RAS is not switched off.
std::vector<RasProcess> ras_processes(const std::vector<WorkerPool::Processes>& workers);

class NcclRas {
 public:
  // `plan` must outlive this.
  explicit NcclRas(const LaunchPlan& plan) : plan_(plan) {}

  // Forgets an earlier answer. `patience`: how long is_waiting() waits.
  void ask(const std::vector<RasProcess>& processes, std::chrono::milliseconds patience);

  // Whether the answer is not complete, and there is still time.
  bool is_waiting();

  // What RAS says until now, as ras_line() of evidence/nccl; ends the question.
  std::string line();

 private:
  struct Connection {
    UniqueFd fd;
    std::string_view unsent;
    std::string answer;
    bool has_ended = false;
  };

  void connect();
  // Sends and receives what is possible now.
  static void advance(Connection& connection);

  const LaunchPlan& plan_;
  RasNames names_;
  std::optional<boost::asio::ip::tcp::endpoint> server_;
  std::vector<Connection> connections_;
  std::chrono::milliseconds patience_{0};
  std::chrono::steady_clock::time_point deadline_, connected_;
};

}  // namespace distrun
