// One rank of a run is killed, is stopped or crashes during random collectives. Within twice the
// timeout, every other rank must exit with an error that names a peer or the timeout.
//
// Environment: DISTRUN_SEED is the seed of the first trial (default 0), incremented for each trial.
// "random" draws a seed for each trial, and prints it.
#include "backends/test/faults.h"

#include <array>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "distrun/store_server.h"
#include "launcher/process/worker_process.h"

namespace distrun {
namespace {

using namespace testing;
using std::chrono::steady_clock;
using ::testing::Combine;
using ::testing::ContainsRegex;
using ::testing::Values;
using Fault = FaultPlan::Fault;

constexpr std::chrono::seconds kStartTimeout{60};  // On a busy machine.

class Store {
 public:
  Store() : server_(StoreServer::listen(io_, {}).value()), port_(server_->port()) {
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Store() {
    boost::asio::post(io_, [this] { server_.reset(); });
    thread_.join();
  }
  int port() const { return port_; }

 private:
  boost::asio::io_context io_;
  std::unique_ptr<StoreServer> server_;
  int port_;
  std::thread thread_;
};

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    from.reset(ends[0]);
    to.reset(ends[1]);
  }
  UniqueFd from, to;
};

// The ranks of a trial.  The destructor kills them.
class Ranks {
 public:
  Ranks(const std::string& backend, const FaultPlan& plan) : backend_(backend) {
    for (int rank = 0; rank < plan.ranks; ++rank) start(rank, plan);
    go_.from.reset();
    told_.to.reset();  // Then the pipe ends with the last rank.
  }

  ~Ranks() {
    for (const auto& one : all_) {
      signal_group(one.process, SIGKILL);
      wait_for_end(one.process, steady_clock::now() + kStartTimeout);
      end_group(one.process);
    }
  }

  // Waits for that many bytes from the ranks' stdout. False if they exit or take too long.
  bool have_told(int bytes) {
    const auto deadline = steady_clock::now() + kStartTimeout;
    for (; bytes > 0; --bytes) {
      char byte;
      if (!is_readable(told_.from.get(), deadline)) return false;
      if (::read(told_.from.get(), &byte, 1) != 1) return false;
    }
    return true;
  }

  void go() { go_.to.reset(); }

  bool wait_for_end(int rank, steady_clock::time_point deadline) const {
    return wait_for_end(of(rank).process, deadline);
  }
  std::optional<ProcessEnd> end_of(int rank) const { return look_at_end(of(rank).process); }

  bool is_stopped(int rank) const {
    siginfo_t state{};
    const auto pidfd = static_cast<id_t>(of(rank).process.pidfd.get());
    return ::waitid(P_PIDFD, pidfd, &state, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           state.si_code == CLD_STOPPED;
  }

  std::string text_of(int rank) const {
    std::ifstream file("/proc/self/fd/" + std::to_string(of(rank).err.get()));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  std::string texts() const {
    std::string all;
    for (int rank = 0; rank < static_cast<int>(all_.size()); ++rank) {
      all += "rank " + std::to_string(rank) + ":\n";
      all += text_of(rank);
    }
    return all;
  }

 private:
  struct Rank {
    WorkerProcess process;
    UniqueFd err;
  };

  static bool is_readable(int fd, steady_clock::time_point deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) == 1;
  }
  static bool wait_for_end(const WorkerProcess& process, steady_clock::time_point deadline) {
    return is_readable(process.pidfd.get(), deadline);
  }

  const Rank& of(int rank) const { return all_[static_cast<std::size_t>(rank)]; }

  void start(int rank, const FaultPlan& plan) {
    Environment environment = Environment::from(environ);
    environment.set("RANK", std::to_string(rank));
    environment.set("WORLD_SIZE", std::to_string(plan.ranks));
    environment.set("MASTER_ADDR", "127.0.0.1");
    environment.set("MASTER_PORT", std::to_string(store_.port()));
    environment.set("TORCHELASTIC_USE_AGENT_STORE", "True");
    environment.set("OMP_NUM_THREADS", "1");
    if (backend_ == "hosts") environment.set("DISTRUN_HOST_ID", std::to_string(rank % 2));
    const std::string backend = backend_ == "hosts" ? "shm" : backend_;
    UniqueFd err(::memfd_create("stderr", MFD_CLOEXEC));
    auto process = spawn_process({.executable = FAULTY_RANK,
                                  .arguments = {FAULTY_RANK, backend, std::to_string(plan.seed)},
                                  .environment = environment,
                                  .in = go_.from.get(),
                                  .out = told_.to.get(),
                                  .err = err.get()});
    all_.push_back({std::move(process.value()), std::move(err)});
  }

  const std::string backend_;
  Store store_;
  Pipe go_, told_;
  std::vector<Rank> all_;
};

// Matches "all_reduce on rank 1 of 4: the connection to rank 3 was lost: …" and "… Timed out
// waiting 3000ms …". A collective fails with "Application timeout" if another one of the same rank
// times out. The backend shm says "rank 3 has ended" and "timed out after 3000ms: rank 3 did not
// come".
::testing::Matcher<std::string> names_what_was_wrong(int rank) {
  const std::string here = "[a-z_]+ on rank " + std::to_string(rank) + " (of|in group) .*";
  const std::string others = std::string("0123").erase(static_cast<std::size_t>(rank), 1);
  return ContainsRegex(here + "(the connection to rank [" + others +
                       "] was lost: |Ranks [0-9, ]+ failed to pass|"
                       "Timed out waiting|Application timeout|"
                       "timed out after [0-9]+ms: ranks? [0-9, ]+ did not come|"
                       "rank [" +
                       others +
                       "] has (ended|left the group)|"
                       "a call failed on rank [" +
                       others + "]: )");
}

void expect_it_failed_as_planned(const Ranks& ranks, const FaultPlan& plan) {
  if (plan.fault == Fault::kStop) {
    EXPECT_TRUE(ranks.is_stopped(plan.victim));
    return;
  }
  const int signal = plan.fault == Fault::kKill    ? SIGKILL
                     : plan.fault == Fault::kAbort ? SIGABRT
                                                   : SIGSEGV;
  EXPECT_EQ(ranks.end_of(plan.victim), ProcessEnd(KilledBy{signal})) << ranks.text_of(plan.victim);
}

void expect_a_noticed_failure(const Ranks& ranks, int rank, steady_clock::time_point deadline) {
  const bool in_time = ranks.wait_for_end(rank, deadline);
  const std::string text = ranks.text_of(rank);
  EXPECT_TRUE(in_time) << "rank " << rank << " has not ended within twice the time-out:\n" << text;
  if (!in_time) return;
  EXPECT_EQ(ranks.end_of(rank), ProcessEnd(ExitedWith{1})) << "rank " << rank << ":\n" << text;
  EXPECT_THAT(text, names_what_was_wrong(rank));
}

unsigned seed_of(unsigned trial) {
  const char* first = std::getenv("DISTRUN_SEED");
  if (first == nullptr) return trial;
  if (first != std::string("random")) return static_cast<unsigned>(std::stoul(first)) + trial;
  return std::random_device()();
}

// A backend and the number of the trial. "hosts" is shm on two hosts.
class FaultsTest : public ::testing::TestWithParam<std::tuple<std::string, unsigned>> {};

TEST_P(FaultsTest, OtherRanksFailInTimeAndNameAPeerOrTheTimeOut) {
  const auto& [backend, trial] = GetParam();
  const FaultPlan plan = FaultPlan::of(seed_of(trial));
  std::ostringstream what;
  what << backend << ", " << plan << "\nto run it again: DISTRUN_SEED=" << plan.seed
       << " build/tests/faults_test --gtest_filter='" << backend << "/*/0'";
  SCOPED_TRACE(what.str());
  if (std::getenv("DISTRUN_SEED") != nullptr) std::cout << plan << std::endl;

  {
    Ranks ranks(backend, plan);
    ASSERT_TRUE(ranks.have_told(plan.ranks)) << "a rank has not started:\n" << ranks.texts();
    ranks.go();
    ASSERT_TRUE(ranks.have_told(1)) << "the victim has not reached its collective:\n"
                                    << ranks.texts();
    const auto deadline = steady_clock::now() + 2 * kFaultTimeout;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      if (rank != plan.victim) expect_a_noticed_failure(ranks, rank, deadline);
    }
    expect_it_failed_as_planned(ranks, plan);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process was left";
}

INSTANTIATE_TEST_SUITE_P(gloo, FaultsTest, Combine(Values("gloo"), ::testing::Range(0u, 10u)));
INSTANTIATE_TEST_SUITE_P(shm, FaultsTest, Combine(Values("shm"), ::testing::Range(0u, 10u)));
INSTANTIATE_TEST_SUITE_P(hosts, FaultsTest, Combine(Values("hosts"), ::testing::Range(0u, 10u)));

}  // namespace
}  // namespace distrun
