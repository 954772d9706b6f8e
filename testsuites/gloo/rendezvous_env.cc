#include <csignal>
#include <cstring>
#include <map>
#include <string>

#include <c10/util/Logging.h>
#include <c10/util/StringUtil.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <torch/csrc/distributed/c10d/debug.h>
#include <unistd.h>

#include "distrun/process_group.h"
#include "distrun/testing.h"
#include "testsuites/gloo/one_rank.h"

namespace distrun {
namespace {

struct RendezvousEnvTest : DistributedTest {};

std::string blocked_by(const struct sigaction& action) {
  std::string mask;
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    mask += sigismember(&action.sa_mask, signal) == 1 ? '1' : '0';
  }
  return mask;
}

std::string action_of(int signal) {
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) return "none";
  void* handler = nullptr;
  std::memcpy(&handler, &action.sa_handler, sizeof handler);
  return c10::str(handler, " flags ", action.sa_flags, " mask ", blocked_by(action));
}

std::string file_behind(int descriptor) {
  struct stat file {};
  if (::fstat(descriptor, &file) != 0) return "none";
  return c10::str(file.st_dev, ":", file.st_ino, " flags ", ::fcntl(descriptor, F_GETFL));
}

// Settings that a library must not change: logging and signal handlers.
std::map<std::string, std::string> facts() {
  std::map<std::string, std::string> facts = {
      {"c10's log level", std::to_string(FLAGS_caffe2_log_level)},
      {"c10d's log level", std::to_string(static_cast<int>(c10d::debug_level()))},
      {"descriptor 2", file_behind(STDERR_FILENO)},
  };
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    facts.emplace(c10::str("signal ", signal), action_of(signal));
  }
  return facts;
}

// Counts the test results that reach it.
struct Listener : ::testing::EmptyTestEventListener {
  int results = 0;
  void OnTestPartResult(const ::testing::TestPartResult&) override { ++results; }
};

// Expects that the listener still gets results, even if others were added.
void expect_heard(const Listener& listener) {
  const int before = listener.results;
  SUCCEED();
  EXPECT_EQ(listener.results, before + 1);
}

DISTRIBUTED_TEST(gloo, RendezvousEnvTest, test_logging_init, {.ranks = 1}) {
  const auto hosted = become_the_only_rank();
  // As in Python. From its default, init_process_group() would change it.
  std::signal(SIGPIPE, SIG_IGN);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  auto* listener = new Listener;
  listeners.Append(listener);
  const auto before = facts();

  init_process_group(InitOptions{.backend = "gloo", .init_method = "env://"});
  EXPECT_EQ(facts(), before);
  expect_heard(*listener);

  destroy_process_group();
  EXPECT_EQ(facts(), before);
  expect_heard(*listener);
  delete listeners.Release(listener);
}

}  // namespace
}  // namespace distrun
