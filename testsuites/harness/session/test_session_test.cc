// A whole run of tests, with hosts of fake_test_host.cc.
#include "testsuites/harness/session/test_session.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <set>

#include <sys/resource.h>

#include "testsuites/harness/test/fake_host.h"

namespace distrun {
namespace {

using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class TestSessionTest : public testing::FakeHostFixture {
 protected:
  TestSessionTest() {
    EXPECT_TRUE(become_subreaper());
    ::setenv("FAKE_RUNNER", std::to_string(::getpid()).c_str(), 1);
    options_.runner = options();
    options_.plan.timeout = seconds(60);
    options_.end_signals = {SIGINT, SIGTERM, SIGHUP};
  }

  // Selects tests by the last part of their ids.
  Result<TestSessionEnd> run(const std::vector<std::string>& tests) {
    options_.selection.names.clear();
    for (const std::string& test : tests) options_.selection.names.push_back("fake.Rank." + test);
    const TestSessionContext context{.lifeline = lifeline_,
                                     .host = "here",
                                     .out =
                                         [this](std::string_view text) {
                                           out_ += text;
                                           if (on_out_) on_out_(text);
                                         },
                                     .err =
                                         [this](std::string_view text) {
                                           err_ += text;
                                           if (on_err_) on_err_();
                                         }};
    return run_test_session(options_, context);
  }
  int status_of(const std::vector<std::string>& tests) {
    const auto end = run(tests);
    EXPECT_TRUE(end) << end.error().message;
    return end ? end->status : -1;
  }
  std::string error_of(const std::vector<std::string>& tests) {
    const auto end = run(tests);
    return end ? "" : end.error().message;
  }

  std::string file(const std::string& name) const { return hosts_.path() + "/" + name; }
  static std::string content_of(const std::string& path) {
    std::ifstream text(path);
    return {std::istreambuf_iterator<char>(text), {}};
  }
  void write_times(const std::string& tests) {
    options_.history = file("history");
    std::ofstream(options_.history) << R"({"runs": 1, "tests": {)" << tests << "}}";
  }

  // Raises them when the tests start.
  void raise_at_the_beginning(std::initializer_list<int> signals) {
    on_out_ = [all = std::vector<int>(signals)](std::string_view text) {
      if (!text.starts_with("running ")) return;
      for (const int signal : all) ::raise(signal);
    };
  }

  TestSessionOptions options_;
  GuardLifeline lifeline_;
  std::string out_, err_;
  std::function<void(std::string_view)> on_out_;
  std::function<void()> on_err_;
};

TEST_F(TestSessionTest, StatusReportsTheResult) {
  EXPECT_EQ(status_of({"passes"}), 0);
  EXPECT_EQ(status_of({"passes", "skips"}), 0);
  EXPECT_EQ(status_of({"passes", "fails"}), 1);
  EXPECT_EQ(status_of({"skips"}), 4);
  EXPECT_THAT(out_, EndsWith("\n0 passed, 0 failed, 1 skipped\n"));
  EXPECT_EQ(err_, "");
}

TEST_F(TestSessionTest, IdsMustBeUnique) {
  options_.runner.programs = {FAKE_TEST_HOST, FAKE_TEST_HOST};
  const auto end = run({});
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(end.error().message, StartsWith("two tests have the id fake.Rank."));
}

TEST_F(TestSessionTest, FailsIfAProgramIsNotATestHost) {
  options_.runner.programs = {"/bin/true"};
  EXPECT_EQ(error_of({}),
            "the test program /bin/true failed: it ended without listing its tests (exit code 0); "
            "a test program must link distrun::testing_main");
  options_.runner.programs = {host("prints_and_ends")};
  EXPECT_THAT(error_of({}), EndsWith(" (exit code 3); a test program must link "
                                     "distrun::testing_main\nno memory left\n"));
}

TEST_F(TestSessionTest, NamesTheHostItWaitsFor) {
  options_.runner.programs = {host("says_nothing")};
  options_.runner.host_timeout = seconds(20);
  options_.hosts_patience = std::chrono::milliseconds(1);
  on_err_ = [] { ::raise(SIGTERM); };
  EXPECT_EQ(status_of({}), 128 + SIGTERM);
  EXPECT_EQ(err_, "distrun test: waiting for the tests of " + options_.runner.programs[0] + "\n");
}

TEST_F(TestSessionTest, ListsTestsInTheOrderOfExecution) {
  options_.list = options_.plan.shuffle = true;
  options_.plan.jobs = 1;
  options_.plan.repeat = 3;
  const std::vector<std::string> tests = {"passes", "is_alone", "has_two_ranks", "skips"};
  std::set<std::string> orders;
  for (options_.plan.seed = 0; options_.plan.seed < 20; ++options_.plan.seed) {
    out_.clear();
    EXPECT_EQ(status_of(tests), 0);
    EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 4) << out_;
    orders.insert(out_);
  }
  EXPECT_GT(orders.size(), 1U);
}

TEST_F(TestSessionTest, ResultsReplaceOldFiles) {
  options_.json = file("json");
  options_.junit = file("junit");
  std::ofstream(options_.json) << std::string(100'000, 'x');
  EXPECT_EQ(status_of({"passes"}), 0);
  EXPECT_THAT(content_of(options_.json), Not(HasSubstr("xxx")));
  EXPECT_THAT(content_of(options_.junit), StartsWith("<?xml"));
}

TEST_F(TestSessionTest, ResultsThatCannotBeWrittenAreAnError) {
  options_.json = "/dev/full";
  EXPECT_EQ(error_of({"passes"}), "write /dev/full: no space left on device");
  options_.json = file("no_folder/json");
  EXPECT_EQ(error_of({"passes"}), "write " + options_.json + ": no such file or directory");
}

TEST_F(TestSessionTest, AnUnusableHistoryOnlyPrintsANotice) {
  options_.history = file("history");
  std::ofstream(options_.history) << "{";
  EXPECT_EQ(status_of({"passes"}), 0);
  EXPECT_THAT(err_, StartsWith("distrun test: the history of earlier runs is ignored: "));
  err_.clear();
  EXPECT_EQ(status_of({"passes"}), 0);
  EXPECT_EQ(err_, "") << "it has been replaced";
  options_.history = file("no_folder/history");
  EXPECT_EQ(status_of({"passes"}), 0);
  EXPECT_THAT(err_, StartsWith("distrun test: write " + options_.history));
}

TEST_F(TestSessionTest, ASignalEndsTestsAndPrintsTheSummary) {
  raise_at_the_beginning({SIGTERM});
  EXPECT_EQ(status_of({"hangs_for_ever"}), 128 + SIGTERM);
  EXPECT_THAT(out_, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
}

TEST_F(TestSessionTest, ASecondSignalEndsTheRun) {
  raise_at_the_beginning({SIGTERM, SIGINT});
  EXPECT_EQ(status_of({"hangs_for_ever"}), 128 + SIGINT);
  EXPECT_THAT(out_, Not(HasSubstr("passed")));
  EXPECT_FALSE(has_children());
}

TEST_F(TestSessionTest, KeepsIgnoringIgnoredSignals) {
  ::signal(SIGHUP, SIG_IGN);
  raise_at_the_beginning({SIGHUP});
  EXPECT_EQ(status_of({"passes"}), 0);
  ::signal(SIGHUP, SIG_DFL);
}

// The signal came before the session handled any.
TEST_F(TestSessionTest, ASignalEndsTheRunBeforeTestsAreKnown) {
  options_.runner.programs = {host("says_nothing")};
  options_.runner.host_timeout = seconds(20);
  sigset_t term;
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &term, &lifeline_.blocked);
  ::raise(SIGTERM);
  EXPECT_EQ(status_of({}), 128 + SIGTERM);
  ::sigprocmask(SIG_SETMASK, &lifeline_.blocked, nullptr);
}

TEST_F(TestSessionTest, TheEndOfTheGuardEndsTheRun) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd from(ends[0]);
  ::close(ends[1]);
  lifeline_.fd = from.get();
  options_.plan.timeout = seconds(20);
  status_of({"hangs_for_ever"});
  EXPECT_EQ(out_.find("failed"), std::string::npos) << out_;
  EXPECT_FALSE(has_children());
}

TEST_F(TestSessionTest, KillsLeakedProcessesAndFails) {
  EXPECT_EQ(status_of({"leaves_a_process_that_is_not_found"}), 1);
  EXPECT_THAT(out_, EndsWith("\n1 passed, 0 failed, 0 skipped\n"));
  EXPECT_THAT(err_, StartsWith("distrun test: killed a process that tests leaked: "));
  EXPECT_FALSE(has_children());
}

TEST_F(TestSessionTest, DoesNotReportLeakedProcessesAfterAnInterrupt) {
  EXPECT_EQ(status_of({"leaves_a_process_and_interrupts"}), 128 + SIGTERM);
  EXPECT_EQ(err_, "");
  EXPECT_FALSE(has_children());
}

TEST_F(TestSessionTest, RaisesTheDescriptorLimitForManyRanks) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  options_.plan.jobs = 60;
  options_.plan.repeat = 60;
  EXPECT_EQ(status_of({"passes"}), 0) << out_;
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(TestSessionTest, ShowsTheTimeLeftIfKnown) {
  options_.console = {.terminal = true, .columns = 200};
  options_.plan.jobs = 1;
  write_times(R"("fake.Rank.passes": {"run": 1, "time_us": 200000000})");
  EXPECT_EQ(status_of({"passes", "needs_a_gpu"}), 0);
  EXPECT_THAT(out_, HasSubstr("about 3 min"));
  out_.clear();
  write_times(R"("fake.Rank.passes": {"run": 1, "time_us": 200000000})");
  EXPECT_EQ(status_of({"passes", "has_two_ranks"}), 0);
  EXPECT_THAT(out_, Not(HasSubstr("left")));
}

TEST_F(TestSessionTest, ListsOnATerminalWhatTestsNeed) {
  options_.list = true;
  EXPECT_EQ(status_of({"has_two_ranks", "needs_a_gpu"}), 0);
  EXPECT_EQ(out_, "fake.Rank.has_two_ranks\nfake.Rank.needs_a_gpu\n");
  out_.clear();
  options_.console.terminal = true;
  EXPECT_EQ(status_of({"has_two_ranks", "needs_a_gpu"}), 0);
  EXPECT_EQ(out_,
            "fake.Rank.has_two_ranks  2 ranks\n"
            "fake.Rank.needs_a_gpu    1 rank, 1000 GPUs\n");
}

TEST_F(TestSessionTest, UpdatesAgesOnATerminal) {
  options_.console = {.terminal = true, .columns = 200};
  options_.plan.timeout = seconds(20);
  on_out_ = [](std::string_view text) {
    if (text.find("hangs_for_ever 1 s") != text.npos) ::raise(SIGTERM);
  };
  EXPECT_EQ(status_of({"hangs_for_ever"}), 128 + SIGTERM);
}

}  // namespace
}  // namespace distrun
