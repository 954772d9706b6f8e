// Real runs with --record, and `distrun replay` of their recordings.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test/launch.h"
#include "common/units.h"
#include "launcher/test/terminal.h"
#include "recording/recording.h"
#include "recording/zip_file.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using testing::Folder;
using ::testing::HasSubstr;
using testing::launch;
using testing::ProgramResult;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() {
    options_.environment.set("XDG_CACHE_HOME", folder_.path() + "/cache");
    options_.environment.set("FAKE_FOLDER", folder_.path());
  }

  ProgramResult replay(Words arguments) const {
    arguments.insert(arguments.begin(), {DISTRUN_PROGRAM, "replay"});
    arguments.push_back(file_);
    return testing::run_program(arguments, options_);
  }

  ProgramResult test(Words arguments) const {
    arguments.insert(arguments.begin(), {DISTRUN_PROGRAM, "test", "--binary", FAKE_TEST_HOST});
    return testing::run_program(arguments, options_);
  }

  std::string member(const std::string& name) const {
    const auto text = read_zip_member(file_, name, 64 * kMiB);
    if (!text) return text.error().message;
    return text->value_or("no such member");
  }

  // Replays the recording, and expects the output of the run.
  void expect_same(const ProgramResult& run) const {
    const auto again = replay({});
    EXPECT_EQ(again.end, ProcessEnd(ExitedWith{0})) << again.err;
    EXPECT_EQ(again.out, run.out);
    EXPECT_EQ(again.err, run.err);
  }

  Folder folder_;
  const std::string file_ = folder_.path() + "/run.zip";
  testing::ProgramOptions options_;
};

TEST_F(ReplayTest, ARunIsShownByteByByte) {
  const auto run =
      launch({"--record", file_, "--nproc-per-node", "2", "--prefix", "${local_rank}:", "sh", "-c",
              R"(printf 'loss\377\000\r%s\n' $RANK; echo oh >&2; printf unfinished; exit $RANK)"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(run.err, HasSubstr("rank 1 failed: exit code 1"));
  expect_same(run);
  EXPECT_EQ(replay({"--exit-code"}).end, ProcessEnd(ExitedWith{1}));
}

TEST_F(ReplayTest, OutputThatIsOneConsoleStaysInOrder) {
  // Standard output and standard error of the command, in one file.
  const auto output_of = [this](const std::string& command) {
    const std::string out = folder_.path() + "/out";
    testing::run_program({"sh", "-c", command + " > " + out + " 2>&1"}, options_);
    std::ifstream written(out);
    return std::string{std::istreambuf_iterator<char>(written), {}};
  };
  const std::string program = DISTRUN_PROGRAM;
  const std::string all = output_of(program + " launch --record " + file_ +
                                    " sh -c 'echo 1; echo 2 >&2; echo 3; echo 4 >&2; exit 3'");
  EXPECT_THAT(all, AllOf(HasSubstr("4\n"), HasSubstr("rank 0 failed: exit code 3")));
  EXPECT_EQ(output_of(program + " replay " + file_), all);
}

TEST_F(ReplayTest, ARecordingHasTheReportsOfTheRun) {
  launch({"--record", file_, "sh", "-c", "echo hello"});
  EXPECT_THAT(member("report.html"), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("hello")));
  EXPECT_FALSE(nlohmann::json::parse(member("trace.json"))["traceEvents"].empty());
  Words events;
  for (const auto& line : testing::lines(member("events.jsonl"))) {
    events.push_back(nlohmann::json::parse(line)["event"]);
  }
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.front(), "run_started");
  EXPECT_EQ(events.back(), "run_ended");
  EXPECT_EQ(member("stdout"), "hello\n");
}

TEST_F(ReplayTest, ARecordingHasTheLogFiles) {
  launch({"--record", file_, "--log-dir", folder_.path(), "-r", "0:3,1:1", "--nproc-per-node", "2",
          "sh", "-c",
          "echo out $RANK; echo err $RANK >&2; mkfifo \"${TORCHELASTIC_ERROR_FILE%/*}/pipe\""},
         options_);
  EXPECT_EQ(member("logs/attempt_0/0/stdout.log"), "out 0\n");
  EXPECT_EQ(member("logs/attempt_0/0/stderr.log"), "err 0\n");
  EXPECT_EQ(member("logs/attempt_0/1/stdout.log"), "out 1\n");
  EXPECT_EQ(member("logs/attempt_0/1/stderr.log"), "no such member");
  EXPECT_EQ(member("logs/attempt_0/0/pipe"), "no such member");
}

TEST_F(ReplayTest, ALogFileThatHasGoneIsNotInTheRecording) {
  launch({"--record", file_, "--log-dir", folder_.path(), "-r", "1", "sh", "-c",
          "rm \"${TORCHELASTIC_ERROR_FILE%/*}/stdout.log\""},
         options_);
  EXPECT_EQ(member("logs/attempt_0/0/stdout.log"), "no such member");
  EXPECT_THAT(member("recording.json"), HasSubstr("\"status\""));
}

TEST_F(ReplayTest, ARecordingLeavesTheOtherReportsAsTheyAre) {
  const std::string trace = folder_.path() + "/trace.json", page = folder_.path() + "/page.html",
                    events = folder_.path() + "/events.jsonl";
  launch({"--record", file_, "--trace", trace, "--html", page, "--events", events, "true"});
  for (const std::string& path : {trace, page, events}) {
    std::ifstream written(path);
    const std::string text{std::istreambuf_iterator<char>(written), {}};
    EXPECT_EQ(text, member(path == trace  ? "trace.json"
                           : path == page ? "report.html"
                                          : "events.jsonl"));
  }
}

TEST_F(ReplayTest, ARunThatCannotStartIsRecordedToo) {
  const auto run = launch({"--record", file_, "--master-addr", "10.99.99.99", "true"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(run.err, HasSubstr("is not an address of this machine"));
  expect_same(run);
}

TEST_F(ReplayTest, AKilledLauncherLeavesNoRecordingAndNoFile) {
  const auto run = launch({"--record", file_, "sh", "-c", "kill -9 $PPID; sleep 60"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{137})) << run.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ReplayTest, AFailedRunRunsAgainWithItsFlags) {
  const std::string count = folder_.path() + "/count", page = folder_.path() + "/page.html";
  const auto run = launch({"--record", file_, "--html", page, "--nproc-per-node=2", "--role", "a b",
                           "sh", "-c", "echo $ROLE_NAME >> " + count + "; exit 5"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{5}));
  std::filesystem::remove(count);
  std::filesystem::remove(page);
  const auto before = std::filesystem::last_write_time(file_);
  const auto again = replay({"--rerun-failed"});
  EXPECT_EQ(again.end, ProcessEnd(ExitedWith{5})) << again.err;
  EXPECT_THAT(again.err, StartsWith("distrun replay: distrun launch "));
  std::ifstream written(count);
  const std::string roles{std::istreambuf_iterator<char>(written), {}};
  EXPECT_THAT(roles, StartsWith("a b\n"));
  EXPECT_FALSE(std::filesystem::exists(page));
  EXPECT_EQ(std::filesystem::last_write_time(file_), before);
}

TEST_F(ReplayTest, NothingRunsAgainIfNothingFailed) {
  EXPECT_EQ(launch({"--record", file_, "true"}).end, ProcessEnd(ExitedWith{0}));
  const auto again = replay({"--rerun-failed"});
  EXPECT_EQ(again.end, ProcessEnd(ExitedWith{4}));
  EXPECT_EQ(again.err, "distrun replay: nothing failed in the recorded run\n");
  EXPECT_EQ(again.out, "");
}

TEST_F(ReplayTest, TestsAreShownByteByByte) {
  const auto run = test({"--record", file_, "fake.Rank.passes", "fake.Rank.fails"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{1}));
  expect_same(run);
  EXPECT_THAT(member("junit.xml"), HasSubstr("fake.Rank"));
  EXPECT_THAT(member("report.html"), StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(nlohmann::json::parse(member("results.json"))["summary"]["failed"], 1);
  EXPECT_FALSE(nlohmann::json::parse(member("trace.json"))["traceEvents"].empty());
}

TEST_F(ReplayTest, ResultsOnStdoutAreShownToo) {
  const auto run = test({"--record", file_, "--json", "-", "fake.Rank.passes"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{0})) << run.err;
  EXPECT_THAT(run.out, StartsWith("{"));
  expect_same(run);
  EXPECT_EQ(member("results.json"), run.out);
}

TEST_F(ReplayTest, AnOpenDescriptorGetsTheRecording) {
  const std::string command =
      std::string(DISTRUN_PROGRAM) + " launch --record /dev/fd/3 sh -c 'echo hello' 3> " + file_;
  const auto run = testing::run_program({"sh", "-c", command});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{0})) << run.err;
  expect_same(run);
}

TEST_F(ReplayTest, OnATerminalTheBytesAreTheSame) {
  testing::Terminal terminal({"env", "XDG_CACHE_HOME=" + folder_.path() + "/cache", DISTRUN_PROGRAM,
                              "test", "--binary", FAKE_TEST_HOST, "--record", file_,
                              "fake.Rank.passes"});
  EXPECT_EQ(terminal.end(), ProcessEnd(ExitedWith{0}));
  const std::string shown = terminal.text();
  std::string again = replay({}).out;
  for (std::size_t at = 0; (at = again.find('\n', at)) != again.npos; at += 2) {
    again.insert(at, "\r");  // The terminal adds them.
  }
  EXPECT_EQ(again, shown);
}

TEST_F(ReplayTest, OnlyFailedTestsRunAgain) {
  const auto run = test({"--record", file_, "--repeat", "2", "--isolation", "exec",
                         "fake.Rank.passes", "fake.Rank.fails"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{1}));
  const auto again = replay({"--rerun-failed"});
  EXPECT_EQ(again.end, ProcessEnd(ExitedWith{1}));
  EXPECT_THAT(again.err, StartsWith("distrun replay: distrun test --binary=" FAKE_TEST_HOST
                                    " --repeat=2 --isolation=exec fake.Rank.fails\n"));
  EXPECT_THAT(again.out, EndsWith("\n0 passed, 2 failed, 0 skipped\n"));
}

TEST_F(ReplayTest, InfoNamesTheRunAndItsFailedTests) {
  test({"--record", file_, "fake.Rank.passes", "fake.Rank.fails"});
  const auto info = replay({"--info"});
  EXPECT_EQ(info.end, ProcessEnd(ExitedWith{0})) << info.err;
  EXPECT_THAT(info.out, AllOf(HasSubstr("command  distrun test --binary"),
                              HasSubstr("status   1\n"), EndsWith("failed   fake.Rank.fails\n")));
}

TEST_F(ReplayTest, AFullDiskIsToldAndTheRunGoesOn) {
  // The limit is of the launcher's files; the recording's output alone is larger.
  const std::string command = "ulimit -f 64; exec " + std::string(DISTRUN_PROGRAM) +
                              " launch --record " + file_ +
                              " sh -c 'head -c 300000 /dev/zero; exit 3'";
  const auto run = testing::run_program({"sh", "-c", command});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{3})) << run.err;
  EXPECT_EQ(run.out.size(), 300'000U);
  EXPECT_THAT(run.err,
              EndsWith("distrun: --record: write in " + folder_.path() + ": file too large\n"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ReplayTest, AFullDiskDoesNotEndTests) {
  const std::string command = "ulimit -f 60; exec " + std::string(DISTRUN_PROGRAM) +
                              " test --binary " FAKE_TEST_HOST " --record " + file_ +
                              " --repeat 400 fake.Rank.fails";
  const auto run = testing::run_program({"sh", "-c", command}, options_);
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(run.out, EndsWith("\n0 passed, 400 failed, 0 skipped\n"));
  EXPECT_THAT(run.err, HasSubstr("--record: write in "));
}

TEST_F(ReplayTest, AReaderThatLeavesEndsTheReplay) {
  launch({"--record", file_, "sh", "-c", "head -c 3000000 /dev/zero"});
  const std::string command = std::string(DISTRUN_PROGRAM) + " replay " + file_ +
                              " | head -c 10 > /dev/null; echo ${PIPESTATUS[0]}";
  EXPECT_EQ(testing::run_program({"bash", "-c", command}).out, "141\n");
}

TEST_F(ReplayTest, AReaderThatLeavesDoesNotEndRecordedTests) {
  const std::string command = std::string(DISTRUN_PROGRAM) +
                              " test --binary " FAKE_TEST_HOST " --record " + file_ +
                              " --repeat 50 fake.Rank.passes | true";
  testing::run_program({"bash", "-c", command}, options_);
  EXPECT_THAT(member("stdout"), EndsWith("\n50 passed, 0 failed, 0 skipped\n"));
}

TEST_F(ReplayTest, FailedTestsAreKnownIfAResultCannotBeWritten) {
  const auto run = test({"--record", file_, "--junit", "/dev/full", "fake.Rank.fails"});
  EXPECT_EQ(run.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(replay({"--info"}).out, EndsWith("failed   fake.Rank.fails\n"));
}

TEST_F(ReplayTest, SwitchesThatAreOffStayOff) {
  test({"--record", file_, "--shuffle=false", "--fail-fast", "-j2", "fake.Rank.fails"});
  EXPECT_THAT(replay({"--rerun-failed"}).err,
              StartsWith("distrun replay: distrun test --binary=" FAKE_TEST_HOST
                         " --jobs=2 --fail-fast fake.Rank.fails\n"));
}

TEST_F(ReplayTest, ARerunWritesNoReportForAVariable) {
  launch({"--record", file_, "sh", "-c", "exit 3"});
  const std::string before = member("recording.json");
  options_.environment.set("PET_RECORD", file_);
  options_.environment.set("PET_HTML", folder_.path() + "/page.html");
  EXPECT_EQ(replay({"--rerun-failed"}).end, ProcessEnd(ExitedWith{3}));
  EXPECT_EQ(member("recording.json"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/page.html"));
}

TEST_F(ReplayTest, WordsThatBeginWithDashesRunAgain) {
  const std::string program = folder_.path() + "/-x";
  std::ofstream(program) << "#!/bin/sh\necho role $ROLE_NAME; exit 4\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  options_.environment.set("PATH", folder_.path() + ":/usr/bin:/bin");
  launch({"--record", file_, "--role=--y", "--no-python", "--", "-x"}, options_);
  const auto again = replay({"--rerun-failed"});
  EXPECT_EQ(again.end, ProcessEnd(ExitedWith{4})) << again.err;
  EXPECT_EQ(again.out, "role --y\n");
}

TEST_F(ReplayTest, TorchrunRunsAgainAsTorchrun) {
  const std::string torchrun = folder_.path() + "/torchrun";
  std::filesystem::create_symlink(DISTRUN_PROGRAM, torchrun);
  testing::run_program({torchrun, "--record", file_, "--no-python", "sh", "-c", "exit 5"});
  const auto again = replay({"--rerun-failed"});
  EXPECT_EQ(again.end, ProcessEnd(ExitedWith{5}));
  EXPECT_THAT(again.err, StartsWith("distrun replay: torchrun --no-python sh -c 'exit 5'\n"));
}

TEST_F(ReplayTest, BytesThatAreNotUtf8DoNotRunAgain) {
  launch({"--record", file_, "sh", "-c", "exit 3", "a\xff"});
  const auto again = replay({"--rerun-failed"});
  EXPECT_EQ(again.end, ProcessEnd(ExitedWith{125}));
  EXPECT_EQ(again.err,
            "distrun replay: the command has bytes that are not UTF-8, which FILE does not have\n");
}

TEST_F(ReplayTest, AFileElsewhereIsReachedThroughALink) {
  const std::string link = folder_.path() + "/link.zip";
  std::ofstream(file_) << "old";
  std::filesystem::create_symlink(file_, link);
  const auto run = launch({"--record", link, "echo", "hello"});
  expect_same(run);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

}  // namespace
}  // namespace distrun
