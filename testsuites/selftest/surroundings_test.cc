// The runner with the tests of surroundings.cc: a rank's initial state, and what the host rejects.
#include <csignal>

#include <poll.h>

#include "common/os/packet_socket.h"
#include "launcher/process/worker_process.h"
#include "launcher/test/run_program.h"
#include "testsuites/harness/protocol/host_messages.h"
#include "testsuites/harness/protocol/rank_frames.h"
#include "testsuites/harness/test/runner_fixture.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class SurroundingsTest : public testing::RunnerFixture {
 protected:
  SurroundingsTest() : RunnerFixture(SELFTEST_PROGRAM, "") {}

  TestRunner::Options options_with(
      const std::vector<std::pair<std::string, std::string>>& variables) const {
    TestRunner::Options its = options();
    for (const auto& [name, value] : variables) its.environment.set(name, value);
    return its;
  }

  // Expects that all ranks pass, and returns the output of rank 0.
  std::string output_of(const std::string& id, const TestRunner::Options& options) {
    const auto result = run_one("surroundings.Rank." + id, options);
    EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
    return result.attempts.empty() ? "" : result.attempts[0].ranks.at(0).output;
  }
};

TEST_F(SurroundingsTest, ARankIsItsOwnProcess) {
  EXPECT_EQ(output_of("test_process", options()), "");
  EXPECT_EQ(output_of("test_descriptors", options()), "");
  EXPECT_EQ(output_of("test_signals", options()), "");
}

TEST_F(SurroundingsTest, ARankIgnoresVariablesForOtherPrograms) {
  const auto result =
      run_one("selftest.Well.test_passes", options_with({{"RANK", "99"},
                                                         {"WORLD_SIZE", "1"},
                                                         {"GTEST_FILTER", "none"},
                                                         {"GTEST_REPEAT", "3"},
                                                         {"GTEST_SHUFFLE", "1"},
                                                         {"GTEST_TOTAL_SHARDS", "2"},
                                                         {"GTEST_SHARD_INDEX", "1"}}));
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  EXPECT_THAT(result.attempts.at(0).ranks, Each(Field(&RankResult::assertions, 3)));
  EXPECT_EQ(output_of("DISABLED_test_that_is_run", options()), "");
}

TEST_F(SurroundingsTest, ARankHasTheRunsBackendSeedAndIsolation) {
  const auto output_with = [&](std::uint64_t seed, bool fresh, const std::string& backend) {
    TestRunner::Options its = options();
    its.seed = seed;
    its.fresh = fresh;
    const auto results = run(
        [&](const auto& tests) {
          auto one = plan(tests, "surroundings.Rank.test_is_told");
          one.at(0).backend = backend;
          return one;
        },
        its);
    EXPECT_EQ(results.at(0).status, TestStatus::kPassed) << results[0].reason;
    const auto& ranks = results[0].attempts.at(0).ranks;
    EXPECT_EQ(ranks.at(0).output, ranks.at(1).output);
    return ranks[0].output;
  };
  const std::string forked = output_with(1, false, "fake");
  EXPECT_THAT(forked, AllOf(HasSubstr("backend fake,"), HasSubstr(", forked\n")));
  EXPECT_EQ(output_with(1, false, "fake"), forked);
  EXPECT_NE(output_with(2, false, "fake"), forked);
  EXPECT_THAT(output_with(1, true, "gloo"),
              AllOf(HasSubstr("backend gloo,"), HasSubstr(", executed\n")));
}

TEST_F(SurroundingsTest, FlushesOutputAndSkipsStaticDestructors) {
  EXPECT_THAT(output_of("test_output", options()),
              AllOf(HasSubstr("on cout\n"), HasSubstr("on clog\n"), HasSubstr("on stdout\n"),
                    Not(HasSubstr("destroyed"))));
}

TEST_F(SurroundingsTest, CountsCollectives) {
  const auto result = run_one("surroundings.Rank.test_collectives");
  EXPECT_EQ(result.status, TestStatus::kPassed) << result.reason;
  const auto& collectives = result.attempts.at(0).ranks.at(0).collectives;
  ASSERT_THAT(collectives, SizeIs(1));
  EXPECT_EQ(collectives[0].op, "allreduce");
  EXPECT_EQ(collectives[0].count, 2100);
}

TEST_F(SurroundingsTest, ReportsTheCollectiveThatARankHangsIn) {
  const auto result = run_one("surroundings.Rank.test_hang_in_a_collective");
  const std::string place = result.attempts.at(0).ranks.at(0).stands_at;
  EXPECT_THAT(place, AllOf(HasSubstr("allreduce, number "), HasSubstr("has not completed: Float"),
                           HasSubstr("test_hang_in_a_collective")));
  EXPECT_THAT(place, ContainsRegex("^[^\n]*\n[^\n]*::TestBody ")) << "the rest is the same for all";
  EXPECT_THAT(place, Not(HasSubstr("take_stack"))) << "how it was asked";
  EXPECT_THAT(place, Not(HasSubstr("StackReporter"))) << "what answers";
}

TEST_F(SurroundingsTest, SeesAMainThreadThatBlocksSignals) {
  const auto result = run_one("surroundings.Rank.test_hang_without_signals");
  EXPECT_THAT(result.attempts.at(0).ranks.at(0).stands_at, HasSubstr("test_hang_without_signals"));
}

// The fixture's kill_leaked_processes() finds the process after the run.
TEST_F(SurroundingsTest, AProcessThatWipesItsMarkEndsWithTheRun) {
  left_expected_ = 1;
  EXPECT_EQ(run_one("surroundings.Rank.test_runs_away").status, TestStatus::kPassed);
}

TEST_F(SurroundingsTest, RefusesToForkWithThreadsOrOperations) {
  const auto reason_with = [&](const std::string& early) {
    return run_one("selftest.Well.test_passes", options_with({{"SELFTEST_EARLY", early}})).reason;
  };
  const std::string remedy =
      ": move what is at namespace scope into the test, or run it with --isolation exec";
  EXPECT_THAT(reason_with("operation"),
              EndsWith("the test host ran a tensor operation before main()" + remedy));
  EXPECT_THAT(reason_with("thread"),
              EndsWith("the test host has 2 threads, but a fork copies only one" + remedy));
  EXPECT_EQ(reason_with("child"), "");
}

TEST_F(SurroundingsTest, FreshRanksMayHaveThreadsAndOperations) {
  for (const char* early : {"operation", "thread"}) {
    auto its = options_with({{"SELFTEST_EARLY", early}});
    its.fresh = true;
    const auto result = run_one("selftest.Well.test_passes", its);
    EXPECT_EQ(result.status, TestStatus::kPassed) << early << result.reason;
  }
}

TEST_F(SurroundingsTest, RefusesToForkWithAGpuInUse) {
  if (::access("/dev/nvidiactl", F_OK) != 0) GTEST_SKIP() << "there is no GPU";
  const auto result =
      run_one("selftest.Well.test_passes", options_with({{"SELFTEST_EARLY", "gpu"}}));
  EXPECT_THAT(result.reason, HasSubstr("the test host has used a GPU, which its forks cannot use"));
}

// A test host whose socket this process holds.
class TestHostTest : public ::testing::Test {
 protected:
  TestHostTest() {
    auto sockets = make_packet_sockets().value();
    here_ = std::move(sockets.first);
    Environment environment = Environment::from(environ);
    environment.set(kTestHostVariable, "1");
    host_ = spawn_process({.executable = SELFTEST_PROGRAM,
                           .arguments = {SELFTEST_PROGRAM},
                           .environment = std::move(environment),
                           .in = sockets.second.get()})
                .value();
    EXPECT_FALSE(receive_packet(here_.get()).value().has_ended) << "its list";
  }
  ~TestHostTest() override {
    signal_group(host_, SIGKILL);
    end_group(host_);
  }

  // nullopt if it does not end within half a minute.
  std::optional<ProcessEnd> end() const {
    pollfd ended{host_.pidfd.get(), POLLIN, 0};
    ::poll(&ended, 1, 30'000);
    return look_at_end(host_);
  }

  UniqueFd here_;
  WorkerProcess host_;
};

TEST_F(TestHostTest, EndsWhenTheRunnerCloses) {
  here_.reset();
  EXPECT_EQ(end(), ProcessEnd(ExitedWith{0}));
}

TEST_F(TestHostTest, EndsAtAMalformedRequest) {
  ASSERT_TRUE(send_packet(here_.get(), "rubbish", {}));
  EXPECT_EQ(end(), ProcessEnd(ExitedWith{0}));
}

// A test program executed as a rank, which sends its results to stdout.
TEST(TestHostProgramTest, RefusesTestsThatWouldNeverRun) {
  testing::ProgramOptions options;
  options.environment.set(kTestHostVariable, "1");
  options.environment.set("SELFTEST_EARLY", "plain test");
  const auto result = testing::run_program({SELFTEST_PROGRAM}, options);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(result.err, SELFTEST_PROGRAM
            ": Plain.test is not a DISTRIBUTED_TEST and would never run: move it to another "
            "program\n");
}

TEST(TestHostProgramTest, SaysHowToRunItsTests) {
  const auto result = testing::run_program({SELFTEST_PROGRAM}, testing::ProgramOptions());
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_EQ(result.err, SELFTEST_PROGRAM
            " holds distributed tests; run them with: distrun test --binary " SELFTEST_PROGRAM
            "\nTry 'distrun test --help'.\n");
}

class RankProgramTest : public ::testing::Test {
 protected:
  testing::ProgramResult execute(const std::string& id,
                                 const std::vector<std::pair<std::string, std::string>>& place) {
    testing::ProgramOptions options;
    options.environment.set("DISTRUN_TEST_RANK_OF", id);
    options.environment.set("DISTRUN_TEST_RESULT", "1");
    for (const auto& [name, value] : place) options.environment.set(name, value);
    return testing::run_program({SELFTEST_PROGRAM}, options);
  }
};

TEST_F(RankProgramTest, ReportsAnUnknownTest) {
  EXPECT_THAT(execute("selftest.Well.test_nothing", {}).out,
              HasSubstr("unknown test selftest.Well.test_nothing"));
}

TEST_F(RankProgramTest, ReportsMissingVariables) {
  const char* id = "selftest.Well.test_passes";
  EXPECT_THAT(execute(id, {{"RANK", "0"}}).out,
              HasSubstr("the variable WORLD_SIZE is not set: run this test with `distrun test`"));
  EXPECT_THAT(execute(id, {{"RANK", "x"}, {"WORLD_SIZE", "4"}}).out,
              HasSubstr("RANK is not a number"));
}

TEST_F(RankProgramTest, ExitsWith1IfTheTestFails) {
  const char* id = "selftest.Fails.test_one_expect";
  EXPECT_EQ(execute(id, {{"RANK", "2"}, {"WORLD_SIZE", "3"}}).end, ProcessEnd(ExitedWith{1}));
  EXPECT_EQ(execute(id, {{"RANK", "0"}, {"WORLD_SIZE", "3"}}).end, ProcessEnd(ExitedWith{0}));
}

}  // namespace
}  // namespace distrun
