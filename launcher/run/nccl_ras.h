// NcclRas asks the RAS subsystem of NCCL what is wrong with the communicators of the workers.
//
//     NcclRas ras(plan);
//     ras.ask(workers.running(), 2s);
//     while (ras.is_waiting()) …     // Serve the store meanwhile.
//     ras.line();                    // "communicator of 4 ranks (…): …"
//
// Each process that uses NCCL 2.24 or newer listens at the same port of loopback; the processes of
// a user share the port (SO_REUSEPORT), and the kernel chooses one for each connection. Each of
// them answers for the whole job. Therefore nothing is asked if a process listens there that is not
// one of the workers': it may belong to another job. If the chosen process does not answer, because
// it is stopped, another connection may reach another one.
//
// No method waits for RAS. Thread safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <sys/types.h>

#include "common/os/unique_fd.h"
#include "evidence/nccl/ras_report.h"
#include "launcher/plan/plan.h"
#include "launcher/run/worker_pool.h"

namespace distrun {

// As ras_port() of evidence/nccl. To read the variables of a process, the kernel takes a lock of
// its memory: this may block.
std::optional<std::uint16_t> ras_port_of(pid_t pid);

class NcclRas {
 public:
  using PortOf = std::function<std::optional<std::uint16_t>(pid_t)>;

  // A process that is not stopped says within milliseconds that it is RAS. After this time, another
  // connection is opened.
  static constexpr std::chrono::milliseconds kSilenceMax{50};
  // RAS waits a second for processes that it knows to be slow. With less patience than this, its
  // answer is too late if a stopped process was asked first.
  static constexpr std::chrono::milliseconds kPatienceMin =
      kSilenceMax + std::chrono::milliseconds(1100);

  // `plan` must outlive this.
  explicit NcclRas(const LaunchPlan& plan, PortOf port_of = ras_port_of)
      : plan_(plan), port_of_(std::move(port_of)) {}

  // Forgets an earlier answer. `patience`: how long is_waiting() waits.
  void ask(const std::vector<WorkerPool::Processes>& workers, std::chrono::milliseconds patience);

  // Whether the answer is not complete, and there is still time.
  bool is_waiting();

  // What RAS says until now, as ras_line() of evidence/nccl; ends the question.
  std::string line();

  // At which something was asked last. RAS does not read while it collects data, so it closes its
  // ends of connections later than line().
  std::optional<std::uint16_t> port() const { return port_; }

 private:
  struct Connection {
    UniqueFd fd;
    std::string_view unsent;
    std::string answer;
    bool has_ended = false;
  };

  std::optional<boost::asio::ip::tcp::endpoint> server_of(
      const std::vector<WorkerPool::Processes>& workers) const;
  void connect();
  // Sends and receives what is possible now.
  static void advance(Connection& connection);

  const LaunchPlan& plan_;
  const PortOf port_of_;
  RasNames names_;
  std::optional<boost::asio::ip::tcp::endpoint> server_;
  std::optional<std::uint16_t> port_;
  std::vector<Connection> connections_;
  std::chrono::milliseconds patience_{0};
  std::chrono::steady_clock::time_point deadline_, connected_;
};

}  // namespace distrun
