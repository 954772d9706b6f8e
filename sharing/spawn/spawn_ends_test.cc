// How processes end, and what the parent then does and reports.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "distrun/spawn.h"
#include "sharing/spawn/test/spawn_fixture.h"

namespace distrun {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using testing::exception_of;
using ::testing::HasSubstr;
using testing::kLong;
using ::testing::StartsWith;
using testing::wait_to_be_ended;
using testing::Watch;

// Letter `index` of the text says what process `index` does.
void act(int index, SpawnArguments& arguments) {
  switch (arguments.text.at(static_cast<std::size_t>(index))) {
    case 'r':
      return;
    case 'w':
      wait_to_be_ended();
      return;
    case 'V':
      TORCH_CHECK_VALUE(false, "the learning rate is ", -1);
    case 'R':
      throw std::runtime_error("no such thing");
    case 'i':
      throw 3;
    case 'K':
      ::raise(SIGKILL);
      return;
    case 'A':
      std::abort();
    case '0':
      std::exit(0);
    case '3':
      ::_exit(3);
    case 's':  // Ignores SIGTERM.
      ::signal(SIGTERM, SIG_IGN);
      [[fallthrough]];
    case 'b':  // Reports that it has started.
      arguments.queues.at(0).put({{}, "begun"});
      wait_to_be_ended();
      return;
    case 'q':  // Returns on request.
      arguments.queues.at(0).get(kLong);
      return;
    case 'Q':  // Fails on request.
      arguments.queues.at(0).get(kLong);
      throw std::runtime_error("as it was told");
  }
}
const SpawnFunction kAct("act", act);

ProcessContext start(const std::string& what, std::vector<TensorQueue> queues = {},
                     SpawnOptions options = {}) {
  options.arguments = {.queues = std::move(queues), .text = what};
  return start_processes(kAct, static_cast<int>(what.size()), std::move(options));
}

std::vector<Watch> watch(const ProcessContext& context) {
  std::vector<Watch> watches;
  for (const pid_t pid : context.pids()) watches.emplace_back(pid);
  return watches;
}

template <class Exception>
Exception failure_of(const std::string& what) {
  ProcessContext context = start(what);
  return exception_of<Exception>([&] { context.finish(kLong); });
}

TEST(SpawnEndsTest, RethrowsAnExceptionWithIndexPidTypeAndText) {
  ProcessContext context = start("rV");
  const auto raised = exception_of<ProcessRaisedException>([&] { context.finish(kLong); });
  EXPECT_EQ(raised.index(), 1);
  EXPECT_EQ(raised.pid(), context.pids().at(1));
  EXPECT_EQ(raised.type(), "c10::ValueError");
  EXPECT_EQ(raised.text(), "the learning rate is -1");
}

TEST(SpawnEndsTest, ReportsExceptionsOfOtherTypes) {
  const auto raised = failure_of<ProcessRaisedException>("R");
  EXPECT_EQ(raised.type(), "std::runtime_error");
  EXPECT_EQ(raised.text(), "no such thing");
  const auto number = failure_of<ProcessRaisedException>("i");
  EXPECT_EQ(number.type(), "int");
  EXPECT_EQ(number.text(), "its type has no what()");
}

TEST(SpawnEndsTest, AMovedFromContextReportsIt) {
  ProcessContext context = start("rV");
  ProcessContext other = std::move(context);
  EXPECT_STREQ(exception_of<c10::Error>([&] { context.join(); }).what_without_backtrace(),
               "join: this ProcessContext has been moved from, and has no processes");
  EXPECT_THROW(other.finish(kLong), ProcessRaisedException);
}

TEST(SpawnEndsTest, ReportsSignals) {
  EXPECT_EQ(failure_of<ProcessExitedException>("K").end(), ProcessEnd(KilledBy{SIGKILL}));
  EXPECT_THAT(failure_of<ProcessExitedException>("rA").what(),
              HasSubstr("ended by signal SIGABRT (6)"));
}

TEST(SpawnEndsTest, ExitBeforeTheFunctionReturnsIsAFailureWithAnyCode) {
  const auto zero = failure_of<ProcessExitedException>("0");
  EXPECT_EQ(zero.end(), ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(zero.stage(), ProcessExitedException::Stage::kBegun);
  EXPECT_EQ(failure_of<ProcessExitedException>("3").end(), ProcessEnd(ExitedWith{3}));
}

TEST(SpawnEndsTest, FailureEndsTheOtherProcesses) {
  ProcessContext context = start("wVw");
  const std::vector<Watch> watches = watch(context);
  EXPECT_EQ(exception_of<ProcessRaisedException>([&] { context.finish(kLong); }).index(), 1);
  for (const Watch& one : watches) EXPECT_TRUE(one.has_ended(0ms));
  EXPECT_EQ(exception_of<ProcessRaisedException>([&] { context.join(0ms); }).index(), 1);
}

TEST(SpawnEndsTest, ReportsTheFirstEndHoweverLateTheParentLooks) {
  for (const std::size_t first : {0, 1}) {
    const TensorQueue go(1);
    ProcessContext context = start(first == 0 ? "Qw" : "wQ", {go});
    const std::vector<Watch> watches = watch(context);
    go.put({});
    EXPECT_TRUE(watches.at(first).has_ended());
    watches.at(1 - first).send(SIGKILL);
    EXPECT_TRUE(watches.at(1 - first).has_ended());
    const auto told = exception_of<ProcessException>([&] { context.finish(kLong); });
    EXPECT_EQ(told.index(), static_cast<int>(first));
  }
}

TEST(SpawnEndsTest, ProcessThatIgnoresSigtermIsKilledAfterTheGracePeriod) {
  const TensorQueue deaf(1);
  ProcessContext context = start("sw", {deaf}, {.grace_period = 50ms});
  const std::vector<Watch> watches = watch(context);
  EXPECT_EQ(deaf.get(kLong).text, "begun");
  watches.at(1).send(SIGKILL);
  const auto exited = exception_of<ProcessExitedException>([&] { context.finish(kLong); });
  EXPECT_EQ(exited.index(), 1);
  EXPECT_TRUE(watches.at(0).has_ended(0ms));
}

TEST(SpawnEndsTest, StoppedProcessEndsOnSigterm) {
  constexpr auto kGrace = 15s;
  const TensorQueue begun(1);
  ProcessContext context = start("bw", {begun}, {.grace_period = kGrace});
  const std::vector<Watch> watches = watch(context);
  EXPECT_EQ(begun.get(kLong).text, "begun");
  watches.at(0).send(SIGSTOP);
  watches.at(1).send(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  EXPECT_THROW(context.finish(kLong), ProcessExitedException);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, kGrace);
}

TEST(SpawnEndsTest, JoinThatTimesOutLeavesTheProcessesRunning) {
  const TensorQueue go(1);
  ProcessContext context = start("q", {go});
  EXPECT_FALSE(context.join(0ms));
  EXPECT_FALSE(context.join(10ms));
  EXPECT_FALSE(context.join(-1s));
  go.put({});
  EXPECT_TRUE(context.join(kLong));
  EXPECT_TRUE(context.join(std::chrono::milliseconds::max()));
  context.join();
}

TEST(SpawnEndsTest, FinishEndsAndReportsProcessesThatAreLate) {
  ProcessContext context = start("rww");
  const std::vector<Watch> watches = watch(context);
  EXPECT_TRUE(watches.at(0).has_ended());
  const auto late = exception_of<ProcessTimedOut>([&] { context.finish(10ms); });
  EXPECT_THAT(late.indices(), ElementsAre(1, 2));
  for (const Watch& one : watches) EXPECT_TRUE(one.has_ended(0ms));
  EXPECT_THROW(context.join(), ProcessTimedOut);
  EXPECT_THROW(spawn(kAct, 1, {.arguments = {.text = "w"}, .timeout = 10ms}), ProcessTimedOut);
}

TEST(SpawnEndsTest, DestroyedContextEndsItsProcesses) {
  std::optional<ProcessContext> context = start("ww");
  const std::vector<Watch> watches = watch(*context);
  context.reset();
  for (const Watch& one : watches) EXPECT_TRUE(one.has_ended(0ms));
}

TEST(SpawnEndsTest, ProcessesOutliveTheThreadThatStartedThem) {
  const TensorQueue go(1);
  std::optional<ProcessContext> context;
  std::thread([&] { context = start("q", {go}); }).join();
  EXPECT_FALSE(context->join(200ms));
  go.put({});
  EXPECT_TRUE(context->join(kLong));
}

void be_a_parent(int, SpawnArguments& arguments) {
  const TensorQueue begun(2);
  ProcessContext children = start("bb", {begun});
  for (int i = 0; i < 2; ++i) begun.get(kLong);
  std::string pids;
  for (const pid_t pid : children.pids()) pids += std::to_string(pid) + " ";
  arguments.queues.at(0).put({{}, pids});
  children.join();
}
const SpawnFunction kBeAParent("be a parent", be_a_parent);

TEST(SpawnEndsTest, ProcessesEndWithTheirParentHoweverItEnds) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // They are reparented to this process.
  const TensorQueue told(1);
  ProcessContext context = start_processes(kBeAParent, 1, {.arguments = {.queues = {told}}});
  const std::string pids = told.get(kLong).text;
  const pid_t leaked[] = {std::stoi(pids), std::stoi(pids.substr(pids.find(' ')))};
  const Watch first(leaked[0]), second(leaked[1]);
  EXPECT_FALSE(first.has_ended(0ms));
  watch(context).at(0).send(SIGKILL);
  EXPECT_TRUE(first.has_ended());
  EXPECT_TRUE(second.has_ended());
  EXPECT_THROW(context.finish(kLong), ProcessExitedException);
  for (const pid_t pid : leaked) EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), pid);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// Ignores a signal while the object lives.
class IgnoredSignal {
 public:
  explicit IgnoredSignal(int signal) : signal_(signal), before_(::signal(signal, SIG_IGN)) {}
  ~IgnoredSignal() { ::signal(signal_, before_); }
  IgnoredSignal(const IgnoredSignal&) = delete;
  IgnoredSignal& operator=(const IgnoredSignal&) = delete;

 private:
  int signal_;
  sighandler_t before_;
};

TEST(SpawnEndsTest, ProcessThatReturnsSucceedsEvenIfSigchldIsIgnored) {
  const IgnoredSignal ignored(SIGCHLD);
  spawn(kAct, 2, {.arguments = {.text = "rr"}, .timeout = kLong});
  const auto killed = failure_of<ProcessExitedException>("K");
  EXPECT_EQ(killed.end(), std::nullopt);
  EXPECT_THAT(killed.what(), HasSubstr("SIGCHLD is ignored"));
}

TEST(SpawnEndsTest, LeavesOtherChildrenOfTheCallerAlone) {
  const pid_t other = ::fork();
  if (other == 0) ::_exit(7);
  EXPECT_TRUE(Watch(other).has_ended());
  spawn(kAct, 1, {.arguments = {.text = "r"}, .timeout = kLong});
  int status = 0;
  EXPECT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace distrun
