// A rank's initial state and permissions; surroundings_test.cc has the expected results.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/record_function.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gloo/gloo.h"
#include "distrun/testing.h"

namespace distrun {
namespace {

using std::chrono::seconds;

[[noreturn, gnu::noinline]] void wait_in_vain() {
  for (;;) ::pause();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Does, at namespace scope, what SELFTEST_EARLY names.
[[maybe_unused]] const int early = [] {
  const std::string what = variable("SELFTEST_EARLY");
  if (what == "operation") at::ones({1});
  if (what == "thread") std::thread(wait_in_vain).detach();
  if (what == "gpu") ::open("/dev/nvidiactl", O_RDONLY | O_CLOEXEC);
  if (what == "plain test") {
    ::testing::RegisterTest("Plain", "test", nullptr, nullptr, __FILE__, __LINE__,
                            []() -> DistributedTest* { return nullptr; });
  }
  if (what == "child" && ::fork() == 0) ::_exit(0);  // Allowed.
  return 0;
}();
const pid_t loaded_by = ::getpid();

struct Rank : DistributedTest {};

DISTRIBUTED_TEST(surroundings, Rank, test_process, {.ranks = 2}) {
  EXPECT_EQ(std::getenv("DISTRUN_TEST_HOST"), nullptr);
  EXPECT_EQ(std::filesystem::read_symlink("/proc/self/fd/0"), "/dev/null");
  EXPECT_EQ(::getpgrp(), ::getpid());
  EXPECT_EQ(::sched_getscheduler(0), SCHED_BATCH);
  int death_signal = 0;
  ::prctl(PR_GET_PDEATHSIG, &death_signal);
  EXPECT_EQ(death_signal, SIGKILL);
  sigset_t blocked;
  ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_FALSE(::sigismember(&blocked, SIGCHLD));
  EXPECT_FALSE(at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION))
      << "nothing observes tensor operations";
}

// Expects 0, 1, 2, the result channel, and the listed folder.
DISTRIBUTED_TEST(surroundings, Rank, test_descriptors, {.ranks = 2}) {
  std::string all;
  int count = 0;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    all += std::filesystem::read_symlink(fd, gone).string() + '\n';
    ++count;
  }
  EXPECT_EQ(count, 5) << all;
}

DISTRIBUTED_TEST(surroundings, Rank, test_has_half_a_second,
                 {.ranks = 1, .timeout = std::chrono::milliseconds(500)}) {
  EXPECT_EQ(rank(), 0);
}

// The test may take signals sent to its process.
DISTRIBUTED_TEST(surroundings, Rank, test_signals, {.ranks = 1}) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &one, nullptr);
  ::kill(::getpid(), SIGUSR1);
  int signal = 0;
  EXPECT_EQ(::sigwait(&one, &signal), 0);
}

DISTRIBUTED_TEST(surroundings, Rank, test_is_told, {.ranks = 2, .backends = {"gloo", "fake"}}) {
  std::printf("backend %s, random %.6f, %s\n", backend().c_str(), at::rand({1}).item<double>(),
              loaded_by == ::getpid() ? "executed" : "forked");
  EXPECT_LT(rank(), world_size());
}

// Flushes nothing; the process ends without static destructors.
DISTRIBUTED_TEST(surroundings, Rank, test_output, {.ranks = 1}) {
  struct Last {
    ~Last() { ::puts("destroyed"); }
  };
  static const Last last;
  std::ios::sync_with_stdio(false);
  std::cerr.tie(nullptr);  // Otherwise std::cerr would flush std::cout.
  std::cout << "on cout\n";
  std::clog << "on clog\n";
  std::printf("on stdout\n");
  EXPECT_EQ(rank(), 0);
}

DISTRIBUTED_TEST(surroundings, Rank, DISABLED_test_that_is_run, {.ranks = 1}) {
  EXPECT_EQ(rank(), 0);
}

// More collectives than the flight recorder keeps by default.
DISTRIBUTED_TEST(surroundings, Rank, test_collectives, {.ranks = 1}) {
  const auto group = make_gloo_backend(
      {.store = store(), .rank = rank(), .size = world_size(), .timeout = seconds(30)});
  for (int i = 0; i < 2100; ++i) {
    std::vector<at::Tensor> tensors = {at::ones({3})};
    group->allreduce(tensors)->wait();
  }
  EXPECT_EQ(rank(), 0);
}

// Rank 1 does not join rank 0's collective; rank 2 fails, so that both are asked.
DISTRIBUTED_TEST(surroundings, Rank, test_hang_in_a_collective, {.ranks = 3}) {
  const auto begun = store("begun");
  if (rank() == 2) {
    begun->wait({"yes"}, seconds(50));
    FAIL() << "on purpose";
  }
  const auto group = make_gloo_backend(
      {.store = store("group"), .rank = rank(), .size = 2, .timeout = seconds(50)});
  if (rank() == 1) wait_in_vain();
  begun->set("yes", "yes");
  std::vector<at::Tensor> tensors = {at::ones({3})};
  group->allreduce(tensors)->wait();
}

DISTRIBUTED_TEST(surroundings, Rank, test_hang_without_signals,
                 {.ranks = 1, .timeout = std::chrono::milliseconds(500)}) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  wait_in_vain();
}

// The child closes its descriptors and wipes the mark from its environment.
DISTRIBUTED_TEST(surroundings, Rank, test_runs_away, {.ranks = 1}) {
  int there[2];
  ASSERT_EQ(::pipe(there), 0);
  if (::fork() != 0) {
    ::close(there[1]);
    char byte = 0;
    EXPECT_EQ(::read(there[0], &byte, 1),
              0);  // By now the mark is wiped and the descriptors closed.
    ::close(there[0]);
    return;
  }
  ::setsid();
  for (char** one = environ; *one != nullptr; ++one) std::fill_n(*one, std::strlen(*one), 'x');
  for (int fd = 0; fd < 256; ++fd) ::close(fd);
  wait_in_vain();
}

}  // namespace
}  // namespace distrun
