// `distrun test` on tests without LibTorch (fake_test_host.cc). testsuites/selftest/ covers tests
// that misbehave, on real hosts.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/unique_fd.h"
#include "common/test/folder.h"
#include "launcher/test/run_program.h"
#include "launcher/test/terminal.h"
#include "testsuites/harness/protocol/test_list_json.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class TestCommandTest : public ::testing::Test {
 protected:
  TestCommandTest() {
    options_.environment.set("XDG_CACHE_HOME", file("cache"));
    options_.environment.set("FAKE_FOLDER", folder_.path());
  }

  testing::ProgramResult test_with(const std::string& binary, Words arguments) const {
    arguments.insert(arguments.begin(), {DISTRUN_PROGRAM, "test", "--binary", binary});
    return testing::run_program(arguments, options_);
  }

  testing::ProgramResult test(const Words& arguments) const {
    return test_with(FAKE_TEST_HOST, arguments);
  }

  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

  std::string content(const std::string& name) const {
    std::ifstream text(file(name));
    return {std::istreambuf_iterator<char>(text), {}};
  }

  testing::Folder folder_;
  testing::ProgramOptions options_;
};

TEST_F(TestCommandTest, ExitStatusReportsTheResult) {
  const auto passes = test({"fake.Rank.passes"});
  EXPECT_EQ(passes.end, ProcessEnd(ExitedWith{0})) << passes.out << passes.err;
  EXPECT_THAT(passes.out, EndsWith("\n1 passed, 0 failed, 0 skipped\n"));
  const auto fails = test({"fake.Rank.passes", "fake.Rank.fails"});
  EXPECT_EQ(fails.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(fails.out, EndsWith("\n1 passed, 1 failed, 0 skipped\n"));
  const auto skipped = test({"fake.Rank.needs_a_gpu"});
  EXPECT_EQ(skipped.end, ProcessEnd(ExitedWith{4}));
  EXPECT_THAT(skipped.out, HasSubstr("needs 1000 GPUs; there are 0 CUDA devices"));
  EXPECT_EQ(test({"-k", "nothing_is_called_so"}).end, ProcessEnd(ExitedWith{4}));
}

// Each pair: arguments, and a part of their error.
TEST_F(TestCommandTest, RejectsImpossibleFlagsByName) {
  const std::vector<std::pair<Words, std::string>> wrong = {
      {{"fake.Ran"}, "did you mean fake.Rank"},
      {{"--shard", "4/3"}, "4/3"},
      {{"--timeout", "0"}, "--timeout: '0' is too small; give more than 0 seconds\n"},
      {{"--timeout", "-1"}, "--timeout: '-1' is not a number of seconds\n"},
      {{"--seed", "-1"}, "--seed: '-1' is not"},
      {{"--seed", "18446744073709551616"}, "--seed: 18446744073709551616 is not between 0 and"},
      {{"--require-gpus", "-1"}, "--require-gpus"},
      {{"--rank-under", "-1", "gdb"}, "--rank-under"},
      {{"--json", "a", "--junit", "./a"},
       "--junit: './a' is also the file of --json; give another one"},
      {{"--json", "-", "--junit", "-"}, "--junit: '/dev/stdout' is also the file of --json"},
      {{"--binary", file("none")}, "--binary: " + file("none") + ": no such file or directory\n"},
      {{"--binary", folder_.path()}, "--binary: " + folder_.path() + ": is a folder\n"},
      {{"--binary", "/dev/null"}, "--binary: /dev/null: permission denied\n"},
      {{"--isolation", "none"}, "none"},
      {{"--json"}, "--json: needs a file name, except with --list"},
      {{"--rank-under", "1"}, "--rank-under: needs a command, such as gdb --args"},
      {{"-k", "and"}, "and"},
      {{"--jobs", "-1"}, "--jobs"},
      {{"--repeat", "0"}, "--repeat"},
      {{"--list", "--json", "fake.Rank"}, "--json: takes no file name with --list"},
      {{"--list", "--junit", "a.xml"}, "--junit: cannot be combined with --list"},
      {{"--no-such-flag"}, "--no-such-flag"},
  };
  for (const auto& [arguments, problem] : wrong) {
    const auto result = test(arguments);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << arguments[0];
    EXPECT_THAT(result.err, AllOf(StartsWith("distrun test: "), HasSubstr(problem)));
    EXPECT_EQ(result.out, "") << arguments[0];
  }
}

TEST_F(TestCommandTest, ReportsABinaryThatIsNotATestHost) {
  const auto other = test_with("/bin/true", {"--list"});
  EXPECT_EQ(other.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(other.err,
            "distrun test: the test program /bin/true failed: it ended without listing its tests "
            "(exit code 0); a test program must link distrun::testing_main\n");
}

TEST_F(TestCommandTest, ListsTheSelectedTests) {
  const auto lines = test({"--list", "fake.Rank.tells_its_place", "fake.Rank.fails"});
  EXPECT_EQ(lines.out, "fake.Rank.fails\nfake.Rank.tells_its_place\n");
  EXPECT_EQ(lines.err, "");
  EXPECT_EQ(test({"--list", "-k", "place and tells or lets_another"}).out,
            "fake.Rank.tells_its_place\nfake.Rank.lets_another_go\n");
  const auto json = test({"fake.Rank.tells_its_place", "--list", "--json"});
  const auto list = parse_test_list(json.out);
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(test({"fake.Rank.tells_its_place", "--list", "--json", "-"}).out, json.out);
  EXPECT_EQ(list->at(0).needs.ranks_max, 4);
}

TEST_F(TestCommandTest, EveryTestIsInOneShard) {
  EXPECT_EQ(
      test({"--list", "--shard", "1/2"}).out.size() + test({"--list", "--shard", "2/2"}).out.size(),
      test({"--list"}).out.size());
}

TEST_F(TestCommandTest, NoSkipsTurnsASkipIntoAFailure) {
  EXPECT_EQ(test({"fake.Rank.skips"}).end, ProcessEnd(ExitedWith{4}));
  const auto result = test({"fake.Rank.skips", "--no-skips"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, HasSubstr("which --no-skips forbids"));
}

TEST_F(TestCommandTest, RequireGpusFailsWithoutGpus) {
  const auto result = test({"fake.Rank.passes", "--require-gpus", "64"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.err, HasSubstr("--require-gpus 64: this machine has 0"));
}

TEST_F(TestCommandTest, ShowsOutputOfPassingTestsOnRequest) {
  const auto quiet = test({"fake.Rank.tells_its_place"});
  EXPECT_THAT(quiet.out, Not(HasSubstr("[rank 0]")));
  const auto result = test({"fake.Rank.tells_its_place", "--show-output"});
  EXPECT_THAT(result.out, HasSubstr("    [rank 0] rank 0 of 2, backend gloo, seed 1234\n"
                                    "    [rank 1] rank 1 of 2, backend gloo, seed 1234\n"));
}

TEST_F(TestCommandTest, EveryRankGetsTheSeed) {
  const auto result = test({"fake.Rank.tells_its_place", "--show-output", "--seed", "7"});
  EXPECT_THAT(result.out, HasSubstr("[rank 1] rank 1 of 2, backend gloo, seed 7\n"));
}

TEST_F(TestCommandTest, NprocReplacesTheNumberOfRanksIfAllowed) {
  const auto three = test({"fake.Rank.tells_its_place", "--show-output", "--nproc", "3"});
  EXPECT_THAT(three.out, HasSubstr("[rank 2] rank 2 of 3"));
  const auto too_many = test({"fake.Rank.tells_its_place", "fake.Rank.passes", "--nproc", "5"});
  EXPECT_EQ(too_many.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(too_many.out, HasSubstr("tells_its_place: takes 2 to 4 ranks; --nproc is 5\n"));
  EXPECT_THAT(too_many.out, EndsWith("\n1 passed, 0 failed, 1 skipped\n"));
}

TEST_F(TestCommandTest, BackendIsChosenFromThoseOfTheTest) {
  const auto result =
      test({"fake.Rank.tells_its_place", "fake.Rank.passes", "--show-output", "--backend", "fake"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(result.out, HasSubstr("[rank 1] rank 1 of 2, backend fake"));
  EXPECT_THAT(result.out, HasSubstr("fake.Rank.passes: does not support backend fake, only gloo"));
  EXPECT_THAT(result.out, EndsWith("\n1 passed, 0 failed, 1 skipped\n"));
}

// Ids in the order of their ends.
std::string order_in(const std::string& out) {
  std::string order;
  for (std::size_t at = 0; (at = out.find("] fake.", at)) != std::string::npos; ++at) {
    order += out.substr(at + 2, out.find('\n', at) - at - 1);
  }
  return order;
}

TEST_F(TestCommandTest, ASeedIsAnOrder) {
  const auto order = [this](const std::string& seed) {
    return order_in(test({"fake.Rank.passes", "fake.Rank.has_two_ranks", "--repeat", "8",
                          "--shuffle", "-j", "1", "--seed", seed})
                        .out);
  };
  const std::string first = order("1");
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 16) << first;
  EXPECT_EQ(order("1"), first);
  EXPECT_NE(order("2"), first);
  // Otherwise tests of two ranks would run before those of one.
  EXPECT_LT(first.find("passes"), first.rfind("two_ranks")) << first;
}

// Two tests of one rank each, one of which releases the other.
TEST_F(TestCommandTest, NoMoreRanksThanJobsRunAtATime) {
  ASSERT_EQ(::mkfifo(file("another.place").c_str(), 0600), 0);
  const auto run = [this](const Words& more) {
    Words words = {"fake.Rank.waits_for_another", "fake.Rank.lets_another_go"};
    words.insert(words.end(), more.begin(), more.end());
    return test(words);
  };
  const auto together = run({"-j", "2"});
  EXPECT_EQ(together.end, ProcessEnd(ExitedWith{0})) << together.out;
  EXPECT_THAT(together.out, StartsWith("running 2 tests, at most 2 ranks at a time"));
  const auto alone = run({"-j", "1", "--timeout", "0.3"});
  EXPECT_THAT(alone.out, HasSubstr("timed out: rank 0 hung"));
  EXPECT_THAT(alone.out, EndsWith("\n0 passed, 2 failed, 0 skipped\n"));
}

TEST_F(TestCommandTest, TestThatPassesOnRetryIsFlaky) {
  const auto flaky = test({"fake.Rank.fails_the_first_time", "--retries", "1"});
  EXPECT_EQ(flaky.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(flaky.out, HasSubstr("FLAKY 2/2"));
  EXPECT_THAT(flaky.out, EndsWith("\n1 passed (1 flaky), 0 failed, 0 skipped\n"));
  const auto fails = test({"fake.Rank.fails", "--retries", "2"});
  EXPECT_THAT(fails.out, AllOf(HasSubstr("TRY 1 FAIL"), HasSubstr("TRY 2 FAIL")));
  EXPECT_THAT(fails.out, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
}

TEST_F(TestCommandTest, FailFastStartsNothingAfterAFailure) {
  const auto result = test({"fake.Rank.fails", "fake.Rank.is_alone", "--fail-fast"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(result.out, EndsWith("\n0 passed, 1 failed, 0 skipped, 1 not run\n"));
}

TEST_F(TestCommandTest, FailedRunsTestsThatHaveNotPassedSince) {
  test({"fake.Rank.passes", "fake.Rank.fails"});
  test({"fake.Rank.passes"});
  EXPECT_THAT(test({"--failed"}).out, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
  // Under another name, too.
  const std::filesystem::path program = FAKE_TEST_HOST;
  const auto other = program.parent_path() / "." / program.filename();
  EXPECT_THAT(test_with(other, {"--failed"}).out, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
}

TEST_F(TestCommandTest, TestsThatDidNotStartCountAsFailed) {
  test({"fake.Rank.fails", "fake.Rank.is_alone", "--fail-fast"});
  EXPECT_EQ(test({"--failed", "--list"}).out, "fake.Rank.is_alone\nfake.Rank.fails\n");
}

TEST_F(TestCommandTest, ReportsWhyNoTestRan) {
  const auto why_none = [this](const Words& arguments) {
    const auto result = test(arguments);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{4})) << arguments[0];
    return result.err;
  };
  EXPECT_EQ(why_none({"--failed"}), "distrun test: --failed: no earlier run is recorded\n");
  test({"fake.Rank.passes"});
  EXPECT_EQ(why_none({"--failed"}), "distrun test: --failed: no test failed in earlier runs\n");
  test({"fake.Rank.fails"});
  EXPECT_EQ(why_none({"fake.Rank.passes", "--failed"}),
            "distrun test: --failed matches none of 1 test\n");
  EXPECT_EQ(why_none({"fake.Rank.passes", "-k", "zzz"}),
            "distrun test: -k zzz matches none of 1 test\n");
}

TEST_F(TestCommandTest, PrintedCommandRepeatsTheTest) {
  const auto result = test({"fake.Rank.fails", "--seed", "7"});
  const auto begin = result.out.find("repeat: distrun ") + 16;
  const std::string words = result.out.substr(begin, result.out.find('\n', begin) - begin);
  EXPECT_THAT(words, HasSubstr("--seed 7"));
  const auto again =
      testing::run_program({"sh", "-c", std::string(DISTRUN_PROGRAM) + " " + words}, options_);
  EXPECT_THAT(again.out, HasSubstr(", seed 7\n"));
  EXPECT_THAT(again.out, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
}

TEST_F(TestCommandTest, WritesResultsIntoFiles) {
  const auto result = test({"fake.Rank.fails", "--json", file("a.json"), "--junit", file("a.xml"),
                            "--html", file("a.html"), "--trace", file("a.trace"), "--repeat", "2"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  const auto json = nlohmann::json::parse(content("a.json"));
  EXPECT_EQ(json.at("summary").at("failed"), 2);
  EXPECT_EQ(json.at("tests").at(1).at("ranks").at(0).at("status"), "failed");
  EXPECT_THAT(content("a.xml"), StartsWith("<?xml"));
  EXPECT_THAT(content("a.html"), StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(content("a.html"), HasSubstr("<title>2 of 2 tests failed – distrun test</title>"));
  const auto trace = nlohmann::json::parse(content("a.trace"));
  EXPECT_EQ(trace.at("traceEvents").at(0).at("args").at("name"), "fake.Rank.fails #1");
}

TEST_F(TestCommandTest, UnwritableResultsFileIsReportedBeforeTheTests) {
  for (const char* flag : {"--json", "--junit", "--html", "--trace"}) {
    const auto result = test({"fake.Rank.passes", flag, "/no/such/folder/a"});
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2})) << flag;
    EXPECT_EQ(result.err, "distrun test: write /no/such/folder/a: no such file or directory\n");
    EXPECT_EQ(result.out, "") << flag;
  }
}

TEST_F(TestCommandTest, FullDiskIsAnErrorAndTheSummaryStillAppears) {
  const auto result = test({"fake.Rank.passes", "--json", "/dev/full", "--junit", file("a.xml")});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(result.err, "distrun test: write /dev/full: no space left on device\n");
  EXPECT_THAT(result.out, EndsWith("\n1 passed, 0 failed, 0 skipped\n"));
  EXPECT_THAT(content("a.xml"), HasSubstr("passes"));
}

TEST_F(TestCommandTest, OldFileStaysIfNothingRuns) {
  std::ofstream(file("a.json")) << "old";
  EXPECT_EQ(test_with("/bin/true", {"--json", file("a.json")}).end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(content("a.json"), "old");
}

// Into a pipe or a file, under any name; text for people then goes to stderr.
TEST_F(TestCommandTest, StdoutCanReceiveOnlyTheResults) {
  for (const char* name : {"-", "/dev/stdout"}) {
    const auto piped = test({"fake.Rank.passes", "--json", name});
    EXPECT_EQ(piped.end, ProcessEnd(ExitedWith{0})) << piped.err;
    EXPECT_THAT(piped.err, EndsWith("\n1 passed, 0 failed, 0 skipped\n"));
    EXPECT_EQ(nlohmann::json::parse(piped.out).at("summary").at("passed"), 1);
  }
  EXPECT_THAT(test({"fake.Rank.passes", "--junit", "-"}).out, StartsWith("<?xml"));
  const std::string words = std::string(DISTRUN_PROGRAM) + " test --binary " + FAKE_TEST_HOST +
                            " fake.Rank.passes --json - >" + file("out");
  EXPECT_EQ(testing::run_program({"sh", "-c", words}, options_).end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(nlohmann::json::parse(content("out")).at("summary").at("passed"), 1);
}

TEST_F(TestCommandTest, AFullStdoutIsAnError) {
  for (const char* what : {"--list", "--list --json", "fake.Rank.passes"}) {
    const std::string words = std::string(DISTRUN_PROGRAM) + " test --binary " + FAKE_TEST_HOST +
                              " " + what + " >/dev/full";
    const auto result = testing::run_program({"sh", "-c", words}, options_);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125})) << what;
    EXPECT_EQ(result.err, "distrun test: write to stdout: no space left on device\n");
  }
}

// Ranks rendezvous through a file URL, which cannot contain '#'.
TEST_F(TestCommandTest, UnusableTmpdirIsReportedBeforeTheTests) {
  std::filesystem::create_directory(file("a#b"));
  options_.environment.set("TMPDIR", file("a#b"));
  const auto result = test({"fake.Rank.passes"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, StartsWith("distrun test: set TMPDIR to another folder: '" + file("a#b") +
                                     "/distrun_"));
  EXPECT_TRUE(std::filesystem::is_empty(file("a#b")));
}

// Without cursor movements and colours.
TEST_F(TestCommandTest, ADumbTerminalGetsPlainLines) {
  testing::Terminal terminal({"env", "-u", "NO_COLOR", "TERM=dumb",
                              "XDG_CACHE_HOME=" + file("cache"), DISTRUN_PROGRAM, "test",
                              "--binary", FAKE_TEST_HOST, "fake.Rank.passes"});
  ASSERT_TRUE(terminal.wait_for("1 passed, 0 failed")) << terminal.text();
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(terminal.text(), Not(HasSubstr("\x1b")));
}

// While a test runs. Its ranks hold a pipe open, which ends when none of them is left.
class TestCommandInterruptedTest : public TestCommandTest {
 protected:
  TestCommandInterruptedTest() {
    EXPECT_EQ(::mkfifo(file("held.place").c_str(), 0600), 0);
    pipe_.reset(::open(file("held.place").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    std::filesystem::create_directory(file("tmp"));
    options_.environment.set("TMPDIR", file("tmp"));
  }

  // Sends `signal` to distrun when both ranks run.
  testing::ProgramResult run_and_send(int signal) {
    options_.on_output = [&, done = false](const std::string&, int pid) mutable {
      if (std::exchange(done, true)) return;
      for (int come = 0; come < 2; ++come) EXPECT_EQ(read_byte(), '!');
      ::kill(pid, signal);
    };
    return test({"fake.Rank.holds_a_place", "--json", file("a.json")});
  }

  // 0 at the end; -1 if nothing arrives within half a minute.
  int read_byte() const {
    for (;;) {
      pollfd ready{pipe_.get(), POLLIN, 0};
      if (::poll(&ready, 1, 30'000) <= 0) return -1;
      char byte = 0;
      const auto size = ::read(pipe_.get(), &byte, 1);
      if (size >= 0) return size == 0 ? 0 : byte;
    }
  }

  UniqueFd pipe_;
};

TEST_F(TestCommandInterruptedTest, ReportsWhatRanAndWhatDidNot) {
  const auto result = run_and_send(SIGTERM);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM}));
  EXPECT_THAT(result.out, EndsWith("\n0 passed, 1 failed, 0 skipped\n"));
  EXPECT_EQ(nlohmann::json::parse(content("a.json")).at("tests").at(0).at("status"), "interrupted");
}

TEST_F(TestCommandInterruptedTest, ReportsOnSigusr1WhereTheRanksAre) {
  options_.on_output = [&, asked = false, ended = false](const std::string& out, int pid) mutable {
    if (!std::exchange(asked, true)) {
      for (int come = 0; come < 2; ++come) EXPECT_EQ(read_byte(), '!');
      ::kill(pid, SIGUSR1);
    } else if (out.find("  collectives\n    ranks 0, 1: in a barrier\n") != out.npos &&
               !std::exchange(ended, true)) {
      ::kill(pid, SIGTERM);
    }
  };
  const auto result = test({"fake.Rank.holds_a_place"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGTERM})) << "SIGUSR1 ends nothing";
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("distrun: where the ranks of fake.Rank.holds_a_place are: "),
                    HasSubstr("  main (fake_test_host")));
}

TEST_F(TestCommandInterruptedTest, StacksAndTopSayHowToAskARunOfTests) {
  options_.on_output = [&, done = false](const std::string&, int pid) mutable {
    if (std::exchange(done, true)) return;
    for (const char* command : {"stacks", "top"}) {
      const auto asked = testing::run_program({DISTRUN_PROGRAM, command, std::to_string(pid)});
      EXPECT_EQ(asked.end, ProcessEnd(ExitedWith{4}));
      EXPECT_EQ(asked.err, fmt::format("distrun {}: {} is a running distrun test, not a distrun "
                                       "launch; to see where its ranks are: kill -USR1 {}\n",
                                       command, pid, pid));
    }
    ::kill(pid, SIGTERM);
  };
  test({"fake.Rank.holds_a_place"});
}

TEST_F(TestCommandInterruptedTest, KillLeavesNeitherRanksNorFiles) {
  std::ofstream(file("a.json")) << "old";
  run_and_send(SIGKILL);
  EXPECT_EQ(read_byte(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(file("tmp")));
  EXPECT_EQ(content("a.json"), "old");
}

TEST_F(TestCommandInterruptedTest, ReaderThatExitsLeavesNoFiles) {
  ASSERT_EQ(::mkfifo(file("unread").c_str(), 0600), 0);
  const std::string unread = "exec 3<>" + file("unread") + " 4>" + file("unread") + " 3<&-; ";
  const auto result =
      testing::run_program({"sh", "-c",
                            unread + "exec " DISTRUN_PROGRAM " test --binary " FAKE_TEST_HOST
                                     " fake.Rank.passes >&4 2>&4"},
                           options_);
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{128 + SIGPIPE})) << result.err;
  EXPECT_TRUE(std::filesystem::is_empty(file("tmp")));
}

TEST_F(TestCommandInterruptedTest, StatusLineFitsANarrowedTerminal) {
  testing::Terminal terminal({"env", "TERM=xterm", "XDG_CACHE_HOME=" + file("cache"),
                              "FAKE_FOLDER=" + folder_.path(), "TMPDIR=" + file("tmp"),
                              DISTRUN_PROGRAM, "test", "--binary", FAKE_TEST_HOST,
                              "fake.Rank.holds_a_place"});
  ASSERT_TRUE(terminal.wait_for("0/1: fake.Rank.holds_a_place")) << terminal.text();
  for (int come = 0; come < 2; ++come) EXPECT_EQ(read_byte(), '!');
  terminal.resize(20);
  EXPECT_TRUE(terminal.wait_for("0/1: fake.Rank.hol…")) << terminal.text();
  terminal.type("\x03");
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{130})) << terminal.text();
}

}  // namespace
}  // namespace distrun
