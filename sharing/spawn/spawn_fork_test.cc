// StartMethod::kFork, and other forks of a process that has a ProcessContext.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <thread>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "distrun/shared_tensor.h"
#include "distrun/spawn.h"
#include "sharing/spawn/test/spawn_fixture.h"

namespace distrun {
namespace {

using namespace std::chrono_literals;
using testing::exception_of;
using ::testing::HasSubstr;
using testing::kLong;
using testing::Watch;

constexpr StartMethod kFork = StartMethod::kFork;

TEST(SpawnForkTest, RunsAnyFunctionOnTheParentsSharedMemory) {
  const at::Tensor shared = share_memory_(at::zeros({2})), copied = at::zeros({2});
  spawn(
      [&](int index) {
        shared[index] = index + 1;
        copied[index] = index + 1;
      },
      2, {.start_method = kFork, .timeout = kLong});
  EXPECT_EQ(shared[0].item<float>(), 1);
  EXPECT_EQ(shared[1].item<float>(), 2);
  EXPECT_TRUE(copied.equal(at::zeros({2})));
}

void add_and_put(int index, SpawnArguments& arguments) {
  arguments.tensors.at(0)[index].add_(1);
  arguments.queues.at(0).put({{}, arguments.text});
}
const SpawnFunction kAddAndPut("add and put", add_and_put);

TEST(SpawnForkTest, RegisteredFunctionGetsTheSameArgumentsAsInAFreshProcess) {
  const at::Tensor tensor = at::zeros({2});
  const TensorQueue queue(2);
  spawn(kAddAndPut, 2,
        {.arguments = {.tensors = {tensor}, .queues = {queue}, .text = "text"},
         .start_method = kFork,
         .timeout = kLong});
  EXPECT_TRUE(tensor.equal(at::full({2}, 1.0f)));
  EXPECT_EQ(queue.get(kLong).text, "text");
}

TEST(SpawnForkTest, ReportsFailuresLikeThoseOfFreshProcesses) {
  const auto fork = [](auto function) {
    spawn(std::function<void(int)>(function), 1, {.start_method = kFork, .timeout = kLong});
  };
  const auto raised = exception_of<ProcessRaisedException>(
      [&] { fork([](int) { throw std::runtime_error("no such thing"); }); });
  EXPECT_EQ(raised.type(), "std::runtime_error");
  const auto exited = exception_of<ProcessExitedException>([&] { fork([](int) { ::_exit(0); }); });
  EXPECT_EQ(exited.stage(), ProcessExitedException::Stage::kBegun);
}

struct WithoutText : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

// Exits with 77 if a child returns from spawn().
template <class Function>
void spawn_fork(Function function) {
  const pid_t parent = ::getpid();
  try {
    spawn(std::function<void(int)>(function), 1, {.start_method = kFork, .timeout = kLong});
  } catch (...) {
    if (::getpid() != parent) ::_exit(77);
    throw;
  }
  if (::getpid() != parent) ::_exit(77);
}

TEST(SpawnForkTest, ReportsTheTypeOfAnExceptionWithoutText) {
  const auto raised =
      exception_of<ProcessRaisedException>([] { spawn_fork([](int) { throw WithoutText(); }); });
  EXPECT_THAT(raised.type(), HasSubstr("WithoutText"));
  EXPECT_EQ(raised.text(), "");
}

TEST(SpawnForkTest, ForkThatCannotFlushDoesNotReturnIntoTheParentsCode) {
  spawn_fork([](int) {
    std::cout.exceptions(std::ios::badbit | std::ios::failbit);
    ::close(STDOUT_FILENO);
    ::open("/dev/full", O_WRONLY);
    std::ios::sync_with_stdio(false);
    std::cout << "x";
  });
}

TEST(SpawnForkTest, ThreadThatReadsDoesNotKeepAProcessRunning) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]), to(ends[1]);
  const auto read_on = [&](int) {
    FILE* const file = ::fdopen(from.get(), "r");
    ASSERT_EQ(::write(to.get(), "a", 1), 1);
    std::atomic<bool> is_reading = false;
    std::thread([&, file] {
      std::fgetc(file);  // Then fgets() takes the lock and waits for a newline.
      is_reading = true;
      std::array<char, 10> line;
      [[maybe_unused]] const char* const got = std::fgets(line.data(), 10, file);
    }).detach();
    while (!is_reading) std::this_thread::yield();
    while (::ftrylockfile(file) == 0) {
      ::funlockfile(file);
      std::this_thread::yield();
    }
  };
  spawn(std::function<void(int)>(read_on), 1,
        {.start_method = kFork, .timeout = 10s, .grace_period = 0ms});
}

TEST(SpawnForkTest, SharesTensorArgumentsEvenIfTheFunctionDoesNotGetThem) {
  const at::Tensor x = at::zeros({2});
  spawn([&](int index) { x.select(0, index).fill_(1); }, 2,
        {.arguments = {.tensors = {x}}, .start_method = kFork, .timeout = kLong});
  EXPECT_TRUE(x.equal(at::ones({2})));
}

TEST(SpawnForkTest, RefusesToForkAProcessWithSeveralThreads) {
  std::atomic<bool> is_over = false;
  std::thread other([&] { is_over.wait(false); });
  const auto refused =
      exception_of<c10::Error>([] { spawn([](int) {}, 1, {.start_method = kFork}); });
  is_over = true;
  is_over.notify_one();
  other.join();
  EXPECT_STREQ(refused.what_without_backtrace(),
               "start process 0 by a fork: this process has 2 threads, and a fork has only one of "
               "them; use StartMethod::kSpawn");
}

void handler(int) {}

TEST(SpawnForkTest, ForkDoesNotInheritSignalHandlers) {
  ::signal(SIGUSR1, handler);
  ::signal(SIGUSR2, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  spawn(
      [](int) {
        TORCH_CHECK(::signal(SIGUSR1, SIG_DFL) == SIG_DFL, "SIGUSR1");
        TORCH_CHECK(::signal(SIGUSR2, SIG_DFL) == SIG_IGN, "SIGUSR2");
        TORCH_CHECK(::signal(SIGTERM, SIG_DFL) == SIG_DFL, "SIGTERM");
        sigset_t blocked;
        ::sigprocmask(SIG_SETMASK, nullptr, &blocked);
        TORCH_CHECK(::sigismember(&blocked, SIGUSR1) == 0, "SIGUSR1 is blocked");
      },
      1, {.start_method = kFork, .timeout = kLong});
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) ::signal(signal, SIG_DFL);
}

int sockets_and_the_like() {
  int count = 0;
  for (const std::string& descriptor : testing::HeldResources::now().descriptors) {
    for (const char* kind : {"socket:", "[pidfd]", "[eventpoll]"}) {
      if (descriptor.find(kind) != descriptor.npos) ++count;
    }
  }
  return count;
}

TEST(SpawnForkTest, ForkHoldsNoDescriptorOfOtherProcesses) {
  const int before = sockets_and_the_like();
  const auto wait = [](int) { testing::wait_to_be_ended(); };
  ProcessContext others = start_processes(wait, 2, {.start_method = kFork});
  EXPECT_GT(sockets_and_the_like(), before);
  spawn(
      [before](int) {
        // Its own control socket and lifeline.
        TORCH_CHECK(sockets_and_the_like() == before + 2, "others' are open");
      },
      2, {.start_method = kFork, .timeout = kLong});
  const pid_t fork = ::fork();
  if (fork == 0) ::_exit(sockets_and_the_like() == before ? 0 : 1);
  int status = -1;
  ::waitpid(fork, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(SpawnForkTest, ContextIsHarmlessInAFork) {
  std::optional<ProcessContext> context =
      start_processes([](int) { testing::wait_to_be_ended(); }, 1, {.start_method = kFork});
  const pid_t fork = ::fork();
  if (fork == 0) {
    bool is_refused = false;
    try {
      context->join();
    } catch (const c10::Error&) {
      is_refused = true;
    }
    context.reset();
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(fork, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(context->join(0ms));
}

}  // namespace
}  // namespace distrun
