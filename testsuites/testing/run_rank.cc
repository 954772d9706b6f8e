#include "testsuites/testing/run_rank.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include <ATen/Context.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/crash/thrown.h"
#include "common/text/parse_number.h"
#include "distrun/record.h"
#include "distrun/testing.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/testing/collectives.h"
#include "testsuites/testing/early_operations.h"
#include "testsuites/testing/leftovers.h"
#include "testsuites/testing/operation_times.h"
#include "testsuites/testing/result_channel.h"
#include "testsuites/testing/stack_reporter.h"

namespace distrun {

namespace {

// Whether a line of LibTorch's backtraces is of no use.
bool is_noise(const std::string& line) {
  if (!line.starts_with("frame #")) return false;
  const std::string function = line.substr(std::min(line.find(": "), line.size()));
  return function.starts_with(": <unknown function>") ||
         function.starts_with(": __libc_start_main") ||
         (function.starts_with(": c10::") && (function.find("Error(") != std::string::npos ||
                                              function.find("CheckFail") != std::string::npos));
}

std::string without_noise(const std::string& message) {
  if (message.find("\nframe #0: ") == std::string::npos) return message;
  std::string text;
  std::istringstream lines(message);
  bool has_frames = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_noise(line)) continue;
    has_frames = has_frames || line.starts_with("frame #");
    text += line + '\n';
  }
  constexpr std::string_view kOrder = " (most recent call first):";
  const auto order = has_frames ? std::string::npos : text.rfind(kOrder);
  if (order != std::string::npos) text.erase(order, kOrder.size());
  return text;
}

void report(ResultChannel& channel, AssertionFailure failure) {
  failure.at = wall_time_now();
  channel.send(AssertionFailed{std::move(failure)});
}

// Forwards GoogleTest's events to the runner.
class ToRunner : public ::testing::EmptyTestEventListener {
 public:
  explicit ToRunner(ResultChannel& channel) : channel_(channel) {}

  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    const std::string message = without_noise(part.message());
    if (part.skipped()) {
      channel_.send(SkipAsked{message});
    } else if (part.failed()) {
      const char* file = part.file_name();
      report(channel_, {.file = file == nullptr ? "" : file,
                        .line = std::max(part.line_number(), 0),
                        .message = message});
    }
  }

 private:
  ResultChannel& channel_;
};

std::uint64_t seed() {
  const char* text = std::getenv(kTestSeedVariable);
  const auto value = parse_number<std::uint64_t>(text == nullptr ? "" : text);
  return value ? *value : 0;
}

struct RunningRank {
  std::string id;
  std::unique_ptr<ResultChannel> channel;
};
RunningRank* rank_here = nullptr;

std::terminate_handler report_and_die = nullptr;  // record()'s.

// An uncaught exception in any thread. GoogleTest catches those of the test's body.
[[noreturn]] void on_uncaught() {
  if (std::current_exception() != nullptr) {
    report(*rank_here->channel,
           {.message = std::string(kUncaughtException) + what_was_thrown().message});
  }
  report_and_die();
  std::abort();
}

TestDone test_done() {
  TestDone done{.assertions = assertions_made(), .collectives = collectives_made()};
  done.collectives.times = operation_times();
  return done;
}

// What a failed test leaves is a consequence.
bool report_leftovers(ResultChannel& channel, const Leftovers& before) {
  const auto left = new_leftovers(before);
  for (const std::string& one : left) report(channel, {.message = "left " + one});
  return !left.empty();
}

int run_here(int, char**) {
  RunningRank& rank = *rank_here;
  GTEST_FLAG_SET(filter, rank.id);
  GTEST_FLAG_SET(repeat, 1);
  GTEST_FLAG_SET(also_run_disabled_tests, true);
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new ToRunner(*rank.channel));
  report_and_die = std::set_terminate(on_uncaught);
  record_collectives();
  record_operation_times();
  const StackReporter reporter(*rank.channel);
  at::manual_seed(seed());
  if (DistributedTest::nodes() > 1) DistributedTest::store();  // Its connection stays open.
  const Leftovers before = leftovers_now();
  bool passed = RUN_ALL_TESTS() == 0;
  if (passed && std::getenv(kTestIgnoreLeaksVariable) == nullptr)
    passed = !report_leftovers(*rank.channel, before);
  if (::testing::UnitTest::GetInstance()->test_to_run_count() != 1) {
    report(*rank.channel, {.message = "unknown test " + rank.id});
  }
  rank.channel->send(test_done());
  return passed ? 0 : 1;
}

}  // namespace

void run_rank(const std::string& id, UniqueFd result) {
  rank_here = new RunningRank{id, std::make_unique<ResultChannel>(std::move(result))};
  char name[] = "rank";
  char* argv[] = {name, nullptr};
  int status = record(run_here, 1, argv);
  if (rank_here->channel->is_closed()) {
    std::fprintf(stderr, "the test closed descriptor %d, distrun's channel for its result\n",
                 rank_here->channel->descriptor());
    status = kExitWithoutChannel;
  }
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  ::_exit(status);  // LibTorch's static destructors would wait for other threads.
}

void run_rank_if_asked() {
  const char* asked = std::getenv(kRankOfVariable);
  if (asked == nullptr) return;
  const std::string id = asked;
  const char* text = std::getenv(kResultVariable);
  const auto fd = parse_number<int>(text == nullptr ? "" : text);
  // Programs run by the test must not see these.
  ::unsetenv(kRankOfVariable);
  ::unsetenv(kResultVariable);
  if (fd) ::fcntl(*fd, F_SETFD, FD_CLOEXEC);
  allow_operations();
  run_rank(id, UniqueFd(fd ? *fd : -1));
}

void fail_rank(const AssertionFailure& failure, pthread_t thread) {
  if (rank_here == nullptr) {
    std::fprintf(stderr, "%s:%d: %s\n", failure.file.c_str(), failure.line,
                 failure.message.c_str());
    ::_exit(1);
  }
  ResultChannel& channel = *rank_here->channel;
  report(channel, failure);
  const PlaceTold place = place_of(thread);
  channel.send(place);
  channel.send(TestDone{.assertions = assertions_made(), .collectives = place.collectives});
  if (::ftrylockfile(stdout) == 0) ::fflush_unlocked(stdout);  // `thread` may hold a stream's lock.
  ::_exit(1);
}

}  // namespace distrun
