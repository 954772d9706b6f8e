// Tests that misbehave on purpose; selftest_test.cc has the expected reports.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "distrun/testing.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

[[noreturn, gnu::noinline]] void wait_for_ever() {
  for (;;) ::pause();
}

struct Well : DistributedTest {};

DISTRIBUTED_TEST(selftest, Well, test_passes, {.ranks = 4}) {
  EXPECT_EQ(world_size(), 4);
  EXPECT_LT(rank(), 4);
  EXPECT_THROW(throw std::runtime_error("x"), std::runtime_error);
}

DISTRIBUTED_TEST(selftest, Well, test_meets, {.ranks = 4}) {
  const auto sign_of = [](int who) { return shared_path("sign_" + std::to_string(who)); };
  std::ofstream(sign_of(rank())) << "here";
  rendezvous();
  for (int who = 0; who < world_size(); ++who) {
    EXPECT_TRUE(std::filesystem::exists(sign_of(who))) << who << " has not come";
  }
  EXPECT_FALSE(store("another")->check({"rank0"}));
  EXPECT_TRUE(std::filesystem::is_empty("."));
  EXPECT_EQ(std::filesystem::current_path(), std::getenv("TMPDIR"));
  std::ofstream("mine") << rank();
}

// No other process has the store open meanwhile.
DISTRIBUTED_TEST(selftest, Well, test_store_keeps_all, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() != 0) return;
  store()->set("a", "1");
  store()->set("b", "2");
  EXPECT_TRUE(store()->check({"a", "b"}));
}

// A fork's variables differ from its program's initial environment.
DISTRIBUTED_TEST(selftest, Well, test_tells_how_it_was_started, {.ranks = 2}) {
  std::ifstream file("/proc/self/environ");
  const std::string at_first(std::istreambuf_iterator<char>(file), {});
  file.close();
  std::puts(at_first.find("WORLD_SIZE=2") != at_first.npos ? "executed afresh" : "forked");
  for (const char* name : {"DISTRUN_TEST_RANK_OF", "DISTRUN_TEST_RESULT", "DISTRUN_TEST_HOST"}) {
    EXPECT_EQ(std::getenv(name), nullptr) << name << " makes ranks of programs that this one runs";
  }
  for (int fd = 3; fd < 256; ++fd) {
    const int flags = ::fcntl(fd, F_GETFD);
    EXPECT_TRUE(flags < 0 || (flags & FD_CLOEXEC) != 0) << "programs inherit descriptor " << fd;
  }
  EXPECT_FALSE(at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION))
      << "each tensor operation is still watched";
}

DISTRIBUTED_TEST(selftest, Well, test_32_ranks, {.ranks = 32}) {
  rendezvous();
  EXPECT_EQ(world_size(), 32);
}

DISTRIBUTED_TEST(selftest, Well, test_is_skipped_by_all, {.ranks = 3}) {
  GTEST_SKIP() << "not today";
}

class NeedsNccl : public DefaultGroupTest {};

DISTRIBUTED_TEST(selftest, NeedsNccl, test_is_skipped, {.ranks = 2, .backends = {"nccl"}}) {
  ADD_FAILURE() << "the backend is not registered";
}

DISTRIBUTED_TEST(selftest, Well, test_dies_as_expected,
                 {.ranks = 2, .expected_ends = {{1, KilledBy{SIGKILL}}}}) {
  if (rank() == 1) ::kill(::getpid(), SIGKILL);
  EXPECT_EQ(rank(), 0);
}

DISTRIBUTED_TEST(selftest, Well, test_peers_of_the_dead_are_told,
                 {.ranks = 3, .expected_ends = {{1, KilledBy{SIGKILL}}}}) {
  init_process_group();
  rendezvous();
  if (rank() == 1) ::raise(SIGKILL);
  at::Tensor x = at::ones({3});
  EXPECT_THROWS_WITHIN(all_reduce(x), seconds(10), c10::DistBackendError, "all_reduce");
}

DISTRIBUTED_TEST(selftest, Well, test_prints_100_MB, {.ranks = 1}) {
  const std::string line(9'999, 'x');
  for (int i = 0; i < 10'000; ++i) std::puts(line.c_str());
  EXPECT_EQ(rank(), 0);
}

// Fails the first time, which it remembers in a file that outlives the attempt.
DISTRIBUTED_TEST(selftest, Well, test_is_flaky, {.ranks = 2}) {
  const std::string file = std::string(std::getenv("SELFTEST_FOLDER")) + "/flaky";
  const bool first = rank() == 0 && std::filesystem::exists(file) == false;
  if (first) std::ofstream(file) << "here";
  EXPECT_FALSE(first);
}

DISTRIBUTED_TEST(selftest, Well, test_needs_gpus, {.ranks = 2, .min_gpus = 64}) {
  EXPECT_EQ(rank(), -1);
}

struct Dies : DistributedTest {
  static void die_of(int signal) {
    EXPECT_LT(rank(), 4);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    if (rank() == 1) ::raise(signal);
    rendezvous("never");
  }
};

#define DIES_OF(signal) \
  DISTRIBUTED_TEST(selftest, Dies, test_of_##signal, {.ranks = 3}) { die_of(signal); }
DIES_OF(SIGHUP)
DIES_OF(SIGINT)
DIES_OF(SIGQUIT)
DIES_OF(SIGILL)
DIES_OF(SIGTRAP)
DIES_OF(SIGABRT)
DIES_OF(SIGBUS)
DIES_OF(SIGFPE)
DIES_OF(SIGKILL)
DIES_OF(SIGUSR1)
DIES_OF(SIGSEGV)
DIES_OF(SIGUSR2)
DIES_OF(SIGPIPE)
DIES_OF(SIGALRM)
DIES_OF(SIGTERM)
DIES_OF(SIGSYS)
#undef DIES_OF

struct Exits : DistributedTest {};

DISTRIBUTED_TEST(selftest, Exits, test_0_before_the_end, {.ranks = 3}) {
  EXPECT_LT(rank(), 3);
  if (rank() == 1) ::_exit(0);
}

DISTRIBUTED_TEST(selftest, Exits, test_5, {.ranks = 3}) {
  EXPECT_LT(rank(), 3);
  if (rank() == 1) std::exit(5);
}

// Bytes in a FIFO are the signs.
DISTRIBUTED_TEST(selftest, Well, test_waits_for_a_sign, {.ranks = 2, .timeout = seconds(100)}) {
  const char* folder = std::getenv("SELFTEST_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "SELFTEST_FOLDER names none";
  const std::string file = std::string(folder) + "/pid_" + std::to_string(rank());
  std::ofstream(file + ".new") << ::getpid() << '\n';
  std::filesystem::rename(file + ".new", file);
  const int go = ::open((std::string(folder) + "/go").c_str(), O_RDONLY);
  char sign = 0;
  EXPECT_EQ(::read(go, &sign, 1), 1);
  ::close(go);
}

// Rank 0 waits in the second collective.
DISTRIBUTED_TEST(selftest, Well, test_reduces_after_a_sign, {.ranks = 2, .timeout = seconds(100)}) {
  const char* folder = std::getenv("SELFTEST_FOLDER");
  if (folder == nullptr || !std::filesystem::exists(std::string(folder) + "/go"))
    GTEST_SKIP() << "there is no FIFO for a sign";
  init_process_group();
  at::Tensor x = at::ones({3});
  all_reduce(x);
  char sign = 0;
  if (rank() == 1) std::ifstream(std::string(folder) + "/go").get(sign);
  all_reduce(x);
  EXPECT_EQ(x[0].item<float>(), 4);
}

struct Forks : DistributedTest {};

// Only a child of rank 1 finishes the test.
DISTRIBUTED_TEST(selftest, Forks, test_0_while_a_fork_goes_on, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() != 1) return;
  const pid_t child = ::fork();
  if (child == 0) return;
  ::waitpid(child, nullptr, 0);
  ::_exit(0);
}

struct Hangs : DistributedTest {};

DISTRIBUTED_TEST(selftest, Hangs, test_in_a_wait, {.ranks = 3, .timeout = milliseconds(500)}) {
  EXPECT_LT(rank(), 3);
  if (rank() == 1) wait_for_ever();
}

// distrun asks where it is, and then kills it.
DISTRIBUTED_TEST(selftest, Hangs, test_asleep, {.ranks = 3, .timeout = milliseconds(500)}) {
  EXPECT_LT(rank(), 3);
  if (rank() == 1) ::sleep(1000);
}

DISTRIBUTED_TEST(selftest, Hangs, test_spinning, {.ranks = 2, .timeout = milliseconds(500)}) {
  EXPECT_LT(rank(), 2);
  for (volatile int i = 0; rank() == 1;) i = i + 1;
}

DISTRIBUTED_TEST(selftest, Hangs, test_stops_the_host, {.ranks = 2, .timeout = seconds(3)}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) ::kill(::getppid(), SIGSTOP);
}

// The timeout lets rank 1 stop itself first, even on a busy machine.
DISTRIBUTED_TEST(selftest, Hangs, test_stopped, {.ranks = 2, .timeout = seconds(3)}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) ::kill(::getpid(), SIGSTOP);
}

// The timeout lets the other ranks reach the collective.
DISTRIBUTED_TEST(selftest, Hangs, test_in_a_collective, {.ranks = 3, .timeout = seconds(3)}) {
  init_process_group();
  EXPECT_LT(rank(), 3);
  at::Tensor x = at::ones({3, 2});
  if (rank() == 1) wait_for_ever();
  all_reduce(x);
}

// The others wait in the second collective.
DISTRIBUTED_TEST(selftest, Hangs, test_sleeps_between_collectives,
                 {.ranks = 3, .timeout = seconds(3)}) {
  init_process_group();
  EXPECT_LT(rank(), 3);
  at::Tensor x = at::ones({3});
  all_reduce(x);
  if (rank() == 0) {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  }
  if (rank() == 1) {
    ::sleep(1000);
    std::puts("awake");
    std::fflush(stdout);
  }
  all_reduce(x);
}

// A group of one rank is fast, and its collectives are recorded too.
DISTRIBUTED_TEST(selftest, Hangs, test_late, {.ranks = 2, .timeout = seconds(5)}) {
  init_process_group();
  EXPECT_LT(rank(), 2);
  const Group groups[] = {new_group({0}), new_group({1})};
  at::Tensor x = at::ones({3});
  for (int i = 0; i < 5000; ++i) all_reduce(x, ReduceOp::SUM, {.group = groups[rank()]});
  if (rank() == 1) wait_for_ever();
  all_reduce(x);
}

struct Leaves : DistributedTest {};

DISTRIBUTED_TEST(selftest, Leaves, test_without_one_collective, {.ranks = 3}) {
  init_process_group();
  EXPECT_LT(rank(), 3);
  at::Tensor x = at::ones({3});
  for (int i = 0; i < 5; ++i) {
    if (rank() != 2 || i != 2) all_reduce(x);
  }
}

class Disagrees : public DefaultGroupTest {};

// Both have 32 bytes, so Gloo does not notice.
DISTRIBUTED_TEST(selftest, Disagrees, test_about_dtypes, {.ranks = 2}) {
  at::Tensor x = rank() == 0 ? at::ones({8}) : at::ones({4}, at::kDouble);
  all_reduce(x);
  EXPECT_LT(rank(), 2);
}

DISTRIBUTED_TEST(selftest, Disagrees, test_allowed_dtypes,
                 {.ranks = 2, .collectives_may_differ = true}) {
  at::Tensor x = rank() == 0 ? at::ones({8}) : at::ones({4}, at::kDouble);
  all_reduce(x);
  EXPECT_LT(rank(), 2);
}

DISTRIBUTED_TEST(selftest, Disagrees, test_about_sizes, {.ranks = 3, .timeout = seconds(3)}) {
  at::Tensor x = at::ones({rank() == 1 ? 5 : 4});
  all_reduce(x);
  EXPECT_LT(rank(), 3);
}

// The peers of a failed rank must not wait for the timeout.
DISTRIBUTED_TEST(selftest, Hangs, test_for_one_that_failed, {.ranks = 3}) {
  ASSERT_NE(rank(), 1) << "on purpose";
  wait_for_ever();
}

// For tests that kill the runner: each rank reports that it runs, and holds a pipe open until it
// ends.
DISTRIBUTED_TEST(selftest, Hangs, test_with_a_pipe, {.ranks = 3, .timeout = seconds(100)}) {
  const char* path = std::getenv("SELFTEST_PIPE");
  if (path == nullptr) GTEST_SKIP() << "SELFTEST_PIPE names none";
  const int pipe = ::open(path, O_WRONLY);
  ASSERT_EQ(::write(pipe, "!", 1), 1);
  if (rank() == 2 && ::fork() == 0) ::setsid();
  wait_for_ever();
}

struct Fails : DistributedTest {};

// The first of these tests to run; the others then need a new host.
DISTRIBUTED_TEST(selftest, Fails, test_kills_the_host, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) ::kill(::getppid(), SIGKILL);
  wait_for_ever();
}

DISTRIBUTED_TEST(selftest, Fails, test_one_expect, {.ranks = 3}) {
  std::printf("rank %d was here\n", rank());
  std::fprintf(stderr, "and on stderr\n");
  EXPECT_NE(rank(), 2) << "on purpose";
}

DISTRIBUTED_TEST(selftest, Fails, test_throws, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) throw std::runtime_error("on purpose");
}

DISTRIBUTED_TEST(selftest, Fails, test_a_thread_throws, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) std::thread([] { throw std::runtime_error("on purpose"); }).join();
}

int* volatile nothing = nullptr;

[[gnu::noinline]] void read_null() {
  const int value = *nothing;
  EXPECT_EQ(value, 0);
}

DISTRIBUTED_TEST(selftest, Fails, test_a_thread_crashes, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  if (rank() == 1) std::thread(read_null).join();
}

DISTRIBUTED_TEST(selftest, Fails, test_leaves_its_peers, {.ranks = 3}) {
  EXPECT_LT(rank(), 3);
  init_process_group("gloo");
  at::Tensor x = at::ones({4});
  all_reduce(x);
  if (rank() == 1) ::_exit(5);
  all_reduce(x);
}

DISTRIBUTED_TEST(selftest, Fails, test_no_error_comes_in_time, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 0) return;
  EXPECT_THROWS_WITHIN(wait_for_ever(), milliseconds(100), std::exception, "gone");
}

DISTRIBUTED_TEST(selftest, Fails, test_without_assertions, {.ranks = 2}) {
  if (rank() == 0) {
    EXPECT_EQ(rank(), 0);
  }
}

DISTRIBUTED_TEST(selftest, Fails, test_skips_alone, {.ranks = 3}) {
  if (rank() == 1) GTEST_SKIP() << "alone";
  EXPECT_NE(rank(), 1);
}

DISTRIBUTED_TEST(selftest, Fails, test_survives_what_it_is_to_die_of,
                 {.ranks = 2, .expected_ends = {{1, KilledBy{SIGKILL}}}}) {
  EXPECT_LT(rank(), 2);
}

// Writes into each of its pipes except stdout and stderr.
DISTRIBUTED_TEST(selftest, Fails, test_writes_garbage, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  for (int fd = 3; rank() == 1 && fd < 256; ++fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) continue;
    [[maybe_unused]] const auto written = ::write(fd, "rubbish, and much of it", 23);
  }
}

DISTRIBUTED_TEST(selftest, Fails, test_closes_its_descriptors, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  for (int fd = 0; rank() == 1 && fd < 256; ++fd) ::close(fd);
}

struct Leaks : DistributedTest {};

// selftest_test.cc removes files that contain the name of its folder.
std::string name_of_leak() {
  const char* folder = std::getenv("SELFTEST_FOLDER");
  const std::string path = folder == nullptr ? "" : folder;
  return "selftest_" + path.substr(path.rfind('/') + 1) + '_';
}

DISTRIBUTED_TEST(selftest, Leaks, test_a_thread, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 0) return;
  std::thread worker(wait_for_ever);
  ::pthread_setname_np(worker.native_handle(), "worker");
  worker.detach();
}

DISTRIBUTED_TEST(selftest, Leaks, test_a_socket, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 0) return;
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listening, 1), 0);
}

DISTRIBUTED_TEST(selftest, Leaks, test_shared_memory, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) std::ofstream("/dev/shm/" + name_of_leak() + std::to_string(::getpid())) << 'x';
}

// The name does not say whose it is.
DISTRIBUTED_TEST(selftest, Leaks, test_mapped_memory, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 0) return;
  const std::string name = "/dev/shm/" + name_of_leak() + "mapped";
  const int file = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::ftruncate(file, 4096), 0);
  ASSERT_NE(::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file, 0), MAP_FAILED);
  ::close(file);
}

DISTRIBUTED_TEST(selftest, Leaks, test_a_file, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  if (rank() == 1) std::ofstream("/tmp/" + name_of_leak() + std::to_string(::getpid())) << 'x';
}

// A group that the test does not destroy ends with the rank.
DISTRIBUTED_TEST(selftest, Leaks, test_a_group, {.ranks = 2}) {
  init_process_group();
  at::Tensor x = at::ones({3});
  all_reduce(x);
  EXPECT_EQ(x[0].item<float>(), 2);
}

// What a rank has when its test begins, and what it closes, is not left.
DISTRIBUTED_TEST(selftest, Leaks, test_nothing, {.ranks = 2}) {
  std::thread([] {}).join();
  ::close(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  std::ofstream("in_its_own_folder_" + std::to_string(::getpid())) << 'x';
  EXPECT_LT(rank(), 2);
}

// A daemon with its own session and no parent. The rank exits once the daemon runs; the other rank,
// which must not be blamed for it, exits before.
DISTRIBUTED_TEST(selftest, Fails, test_leaves_a_daemon, {.ranks = 2}) {
  EXPECT_LT(rank(), 2);
  const auto both = store();
  if (rank() == 0) {
    both->set("pid", std::to_string(::getpid()));
    both->wait({"daemon"}, seconds(50));
    return;
  }
  int there[2];
  ASSERT_EQ(::pipe(there), 0);
  const pid_t child = ::fork();
  if (child != 0) {
    ::close(there[1]);
    char byte = 0;
    EXPECT_EQ(::read(there[0], &byte, 1), 0);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    const int pid = std::stoi(both->get_to_str("pid"));
    const int other = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    both->set("daemon", "there");
    pollfd ended{other, POLLIN, 0};
    EXPECT_EQ(::poll(&ended, 1, 50'000), 1);
    ::close(other);
    ::close(there[0]);
    return;
  }
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::prctl(PR_SET_NAME, "the_daemon");
  for (int fd = 0; fd < 256; ++fd) ::close(fd);
  wait_for_ever();
}

}  // namespace
}  // namespace distrun
