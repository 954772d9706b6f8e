#include "bench/store/crew.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/store/pipe.h"
#include "common/os/die_with_parent.h"

namespace distrun::bench {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr auto kPhaseMax = 60s;

// A client writes it when it is ready and when it is done, each in one write, which a pipe keeps
// whole.
struct Report {
  std::int64_t begin_ns = 0, end_ns = 0;
  std::array<char, 200> error{};  // A message; empty on success.
};

std::int64_t now_ns() { return steady_clock::now().time_since_epoch().count(); }

void wait_for_end_of(const UniqueFd& pipe) {
  char nothing = 0;
  while (::read(pipe.get(), &nothing, 1) < 0 && errno == EINTR) {
  }
}

class Crew {
 public:
  Crew() = default;

  // Leaves no client running, even after a failure.
  ~Crew() {
    if (!done_) {
      for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    }
    leave_.write.reset();
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }

  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void gather(int size, const ClientProgram& program) {
    const pid_t parent = ::getpid();
    for (int client = 0; client < size; ++client) {
      const pid_t pid = ::fork();
      if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork a client");
      if (pid == 0) {
        if (die_with_parent(parent)) work(client, program);
        ::_exit(0);
      }
      pids_.push_back(pid);
    }
    reports();  // Waits until all are ready.
  }

  void start() { start_.write.reset(); }

  // From the first client's start to the last one's end.
  std::chrono::nanoseconds wait_until_done() {
    const auto all = reports();
    done_ = true;
    const auto first = std::ranges::min_element(all, {}, &Report::begin_ns);
    const auto last = std::ranges::max_element(all, {}, &Report::end_ns);
    return std::chrono::nanoseconds(last->end_ns - first->begin_ns);
  }

 private:
  // Runs in the client process.
  void work(int client, const ClientProgram& program) {
    ::alarm(3 * kPhaseMax.count());
    start_.write.reset();
    leave_.write.reset();
    Report report;
    try {
      const auto measured = program(client);
      send(report);
      wait_for_end_of(start_.read);
      report.begin_ns = now_ns();
      measured();
      report.end_ns = now_ns();
      send(report);
      wait_for_end_of(leave_.read);  // Keeps the connection, which `measured` owns, open.
    } catch (const std::exception& error) {
      std::strncpy(report.error.data(), error.what(), report.error.size() - 1);
      send(report);
    }
  }

  void send(const Report& report) {
    if (::write(reports_.write.get(), &report, sizeof(report)) != sizeof(report)) ::_exit(1);
  }

  // One per client.
  std::vector<Report> reports() {
    const auto deadline = steady_clock::now() + kPhaseMax;
    std::vector<Report> all(pids_.size());
    for (Report& report : all) {
      if (!readable_before(reports_.read.get(), deadline) ||
          ::read(reports_.read.get(), &report, sizeof(report)) != sizeof(report)) {
        throw std::runtime_error(
            fmt::format("not all clients finished within {} s", kPhaseMax.count()));
      }
      if (report.error[0] != 0)
        throw std::runtime_error(fmt::format("client: {}", report.error.data()));
    }
    return all;
  }

  std::vector<pid_t> pids_;
  Pipe start_, leave_, reports_;  // Closing one of the first two signals all clients.
  bool done_ = false;
};

}  // namespace

Sample measure(const ServerProcess& server, int clients, const ClientProgram& program) {
  Crew crew;
  crew.gather(clients, program);
  const auto cpu_before = server.cpu();
  const auto kib_before = server.resident_kib();
  crew.start();
  Sample sample;
  sample.wall = crew.wait_until_done();
  sample.cpu = server.cpu() - cpu_before;
  sample.grown_kib =
      static_cast<std::ptrdiff_t>(server.resident_kib()) - static_cast<std::ptrdiff_t>(kib_before);
  return sample;
}

}  // namespace distrun::bench
