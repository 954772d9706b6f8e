// Real launches: where workers' output goes.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::Folder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::launch;
using testing::lines;
using ::testing::Not;
using testing::ProgramOptions;
using testing::ProgramResult;
using testing::run_program;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

const ProcessEnd kSuccess = ExitedWith{0};

std::string log_contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// A worker waits with `read line <$NAME` until the test opens the gate.
class Gate {
 public:
  Gate(const std::string& name, ProgramOptions& options) {
    const std::string path = folder_.path() + "/gate";
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    fd_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    options.environment.set(name, path);
  }
  void open() { EXPECT_EQ(::write(fd_.get(), "\n", 1), 1); }

 private:
  Folder folder_;
  UniqueFd fd_;
};

class LaunchOutputTest : public ::testing::Test {
 protected:
  // With --log-dir and TMPDIR in the test's own folders.
  ProgramResult launch_logged(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--log-dir", logs()});
    options_.environment.set("TMPDIR", folder_.path());
    return launch(arguments, options_);
  }
  ProgramResult run_script(const std::string& script) {
    const auto result = run_program({"bash", "-c", script}, options_);
    EXPECT_FALSE(result.timed_out) << result.err;
    return result;
  }

  std::string logs() const { return folder_.path() + "/logs"; }

  // The files in the log folder of the only run.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> found;
    for (const auto& file : std::filesystem::recursive_directory_iterator(run_folder())) {
      if (!file.is_regular_file()) continue;
      found[std::filesystem::relative(file.path(), run_folder())] = log_contents(file.path());
    }
    return found;
  }
  std::string run_folder() const {
    std::vector<std::string> runs;
    for (const auto& run : std::filesystem::directory_iterator(logs())) runs.push_back(run.path());
    EXPECT_EQ(runs.size(), 1u);
    return runs.empty() ? "" : runs.front();
  }

  Folder folder_;
  ProgramOptions options_;
};

TEST_F(LaunchOutputTest, TeedStreamsOfChosenRanksGoToFilesAndWithAPrefixToTheConsole) {
  const auto result =
      launch_logged({"--nproc-per-node", "12", "-t", "0:1,11:3", "sh", "-c",
                     "echo out $LOCAL_RANK; echo err $LOCAL_RANK >&2; printf last"});
  EXPECT_EQ(result.end, kSuccess) << result.err;
  const auto out = lines(result.out), err = lines(result.err);
  EXPECT_THAT(out, AllOf(Contains("[default0]:out 0"), Contains("[default11]:out 11"),
                         Contains("[default11]:last"), Contains("out 1"), Contains("out 10")));
  EXPECT_THAT(err, AllOf(Contains("[default11]:err 11"), Contains("err 0"), Contains("err 10")));
  EXPECT_EQ(out.size(), 24u);
  EXPECT_EQ(err.size(), 12u);
  EXPECT_EQ(files(), (std::map<std::string, std::string>{
                         {"attempt_0/0/stdout.log", "out 0\nlast"},
                         {"attempt_0/11/stdout.log", "out 11\nlast"},
                         {"attempt_0/11/stderr.log", "err 11\n"},
                     }));
}

TEST_F(LaunchOutputTest, ARedirectedStreamIsTheFileItself) {
  const auto result = launch_logged({"--nproc-per-node", "12", "-r", "0:2,11:3", "sh", "-c",
                                     "readlink /proc/$$/fd/1; readlink /proc/$$/fd/2 >&2;"
                                     "[ $LOCAL_RANK != 11 ] || grep flags /proc/$$/fdinfo/1"});
  EXPECT_EQ(result.end, kSuccess) << result.err;
  EXPECT_EQ(lines(result.out).size(), 11u);
  EXPECT_EQ(lines(result.err).size(), 10u);
  const std::string eleven = run_folder() + "/attempt_0/11/";
  const auto all = files();
  EXPECT_EQ(all.size(), 3u);
  EXPECT_EQ(all.at("attempt_0/11/stderr.log"), eleven + "stderr.log\n");
  EXPECT_EQ(all.at("attempt_0/0/stderr.log"), run_folder() + "/attempt_0/0/stderr.log\n");
  const auto out = lines(all.at("attempt_0/11/stdout.log"));
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0], eleven + "stdout.log");
  const int flags = std::stoi(out[1].substr(out[1].find('0')), nullptr, 8);
  EXPECT_NE(flags & O_APPEND, 0) << "what else appends to it would be overwritten";
}

TEST_F(LaunchOutputTest, TheFolderIsTorchrunsAndErrorFilesStayInIt) {
  const auto result =
      launch_logged({"--nproc-per-node", "2", "--rdzv-id", "a/b", "--max-restarts", "1", "sh", "-c",
                     // A stopped worker has written the whole line or nothing.
                     "trap '' TERM; echo $TORCHELASTIC_RESTART_COUNT >$TORCHELASTIC_ERROR_FILE;"
                     "[ $TORCHELASTIC_RESTART_COUNT = 1 ]"});
  EXPECT_EQ(result.end, kSuccess) << result.err;
  const std::string name = std::filesystem::path(run_folder()).filename();
  EXPECT_THAT(name, StartsWith("a_b_"));
  EXPECT_EQ(name.size(), std::string("a_b_XXXXXX").size());
  for (const auto& [file, text] : files()) {
    EXPECT_EQ(file, "attempt_" + text.substr(0, 1) + file.substr(9, 2) + "/error.json");
  }
  EXPECT_EQ(files().count("attempt_1/1/error.json"), 1u);
}

TEST_F(LaunchOutputTest, ANewAttemptHasNewFiles) {
  const auto result = launch_logged({"--max-restarts", "1", "-t", "1", "-r", "2",
                                     "--duplicate-stdout-filters", "try", "sh", "-c",
                                     "echo try $TORCHELASTIC_RESTART_COUNT; echo err >&2;"
                                     "[ $TORCHELASTIC_RESTART_COUNT = 1 ]"});
  EXPECT_EQ(result.end, kSuccess) << result.err;
  EXPECT_EQ(files(), (std::map<std::string, std::string>{
                         {"attempt_0/0/stdout.log", "try 0\n"},
                         {"attempt_0/0/stderr.log", "err\n"},
                         {"attempt_0/filtered_stdout.log", "[default0]:try 0\n"},
                         {"attempt_1/0/stdout.log", "try 1\n"},
                         {"attempt_1/0/stderr.log", "err\n"},
                         {"attempt_1/filtered_stdout.log", "[default0]:try 1\n"},
                     }));
}

TEST_F(LaunchOutputTest, KeepsNoFilesUnlessAsked) {
  options_.environment.set("TMPDIR", folder_.path());
  const auto result = launch({"-r", "0", "-t", "0:0", "sh", "-c",
                              "echo hello; test -d $(dirname $TORCHELASTIC_ERROR_FILE)"},
                             options_);
  EXPECT_EQ(result.end, kSuccess) << result.err;
  EXPECT_EQ(result.out, "hello\n");
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(LaunchOutputTest, WithoutLogDirSaysWhereTheFilesAre) {
  options_.environment.set("TMPDIR", folder_.path());
  const auto result = launch({"--redirects", "1", "echo", "hello"}, options_);
  EXPECT_EQ(result.end, kSuccess);
  EXPECT_EQ(result.out, "");
  const std::string said = "distrun: log files are in " + folder_.path() + "/distrun_logs_";
  ASSERT_THAT(result.err, StartsWith(said));
  const std::string run =
      result.err.substr(result.err.find('/'), result.err.size() - 1 - result.err.find('/'));
  EXPECT_EQ(log_contents(run + "/attempt_0/0/stdout.log"), "hello\n");
}

TEST_F(LaunchOutputTest, DevNullMeansNoFilesAndNoErrorFile) {
  options_.environment.set("TMPDIR", folder_.path());
  const auto result = launch({"--log-dir", "/dev/null", "-r", "3", "-t", "1", "sh", "-c",
                              "echo \"<$TORCHELASTIC_ERROR_FILE>\"; echo err >&2"},
                             options_);
  EXPECT_EQ(result.end, kSuccess);
  EXPECT_EQ(result.out, "<>\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(LaunchOutputTest, OnlyListedLocalRanksReachTheConsole) {
  const auto result =
      launch_logged({"--nproc-per-node", "3", "-t", "0:1,2:1", "--local-ranks-filter", "0,1", "sh",
                     "-c", "echo out $RANK; echo err $RANK >&2"});
  EXPECT_EQ(result.end, kSuccess);
  EXPECT_THAT(lines(result.out), UnorderedElementsAre("[default0]:out 0", "out 1"));
  EXPECT_THAT(lines(result.err), UnorderedElementsAre("err 0", "err 1"));
  EXPECT_EQ(files().at("attempt_0/2/stdout.log"), "out 2\n");
}

TEST_F(LaunchOutputTest, LinesThatMatchGoToOneFileToo) {
  const auto result =
      launch_logged({"--nproc-per-node", "3", "-t", "0:3,1:1,2:3", "--local-ranks-filter", "0,1",
                     "--duplicate-stdout-filters", "loss,a,,b", "--duplicate-stderr-filters", "bad",
                     "sh", "-c", "echo loss $RANK; echo a,b; echo ab; echo bad $RANK >&2"});
  EXPECT_EQ(result.end, kSuccess);
  EXPECT_THAT(lines(files().at("attempt_0/filtered_stdout.log")),
              UnorderedElementsAre("[default0]:loss 0", "[default0]:a,b", "[default1]:loss 1",
                                   "[default1]:a,b"));
  EXPECT_EQ(files().at("attempt_0/filtered_stderr.log"), "[default0]:bad 0\n");
  EXPECT_THAT(lines(result.out), Contains("[default1]:ab"));
}

TEST_F(LaunchOutputTest, InAPipeLinesHaveNoPrefix) {
  const auto result = launch({"--nproc-per-node", "2", "sh", "-c", "echo hello; echo err >&2"});
  EXPECT_EQ(result.out, "hello\nhello\n");
  EXPECT_EQ(result.err, "err\nerr\n");
}

// On the test's own terminal.
class OutputOnATerminalTest : public LaunchOutputTest {
 protected:
  OutputOnATerminalTest() {
    options_.environment.set("TERM", "xterm");
    options_.environment.set("NO_COLOR", "");
  }
  std::string shown(const std::string& arguments) {
    const std::string program = std::string(DISTRUN_PROGRAM) + " launch " + arguments;
    const auto result = run_program({"script", "-qec", program, "/dev/null"}, options_);
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.end, kSuccess) << result.out;
    return result.out;
  }
};

TEST_F(OutputOnATerminalTest, LinesOfSeveralWorkersHaveAColouredPrefix) {
  const auto all = lines(shown("--nproc-per-node 2 sh -c 'echo out $RANK; echo err $RANK >&2'"));
  EXPECT_THAT(all, UnorderedElementsAre(
                       "\x1b[36m[default0]:\x1b[0mout 0\r", "\x1b[36m[default0]:\x1b[0merr 0\r",
                       "\x1b[33m[default1]:\x1b[0mout 1\r", "\x1b[33m[default1]:\x1b[0merr 1\r"));
}

TEST_F(OutputOnATerminalTest, OmitsColoursOnRequest) {
  options_.environment.set("NO_COLOR", "1");
  EXPECT_THAT(lines(shown("--nproc-per-node 2 echo x")),
              UnorderedElementsAre("[default0]:x\r", "[default1]:x\r"));
  options_.environment.set("NO_COLOR", "");
  options_.environment.set("TERM", "dumb");
  EXPECT_THAT(shown("--prefix '$rank ' echo x"), "0 x\r\n");
}

TEST_F(OutputOnATerminalTest, SingleWorkerHasNoPrefix) {
  EXPECT_EQ(shown("echo x"), "x\r\n");
  EXPECT_EQ(shown("--nproc-per-node 2 --local-ranks-filter 1 sh -c 'echo $RANK'"), "1\r\n");
}

TEST_F(OutputOnATerminalTest, StreamsInFilesHaveNoPrefix) {
  options_.environment.set("OUT", folder_.path() + "/out");
  shown("--nproc-per-node 2 echo x >$OUT");
  EXPECT_EQ(log_contents(folder_.path() + "/out"), "x\nx\n");
}

TEST_F(LaunchOutputTest, ThePrefixOfTeedLinesIsTorchrunsTemplate) {
  options_.environment.set("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
                           "$role_name|${rank}|${local_rank}$$ ");
  const auto result =
      launch_logged({"--role", "trainer", "-t", "1", "sh", "-c", "echo x;echo y>&2"});
  EXPECT_EQ(result.out, "trainer|0|0$ x\n");
  EXPECT_EQ(result.err, "y\n");
}

TEST_F(LaunchOutputTest, AFlagNamesThePrefixOfEveryLine) {
  const auto result = launch({"--nproc-per-node", "2", "--prefix", "${host}/$rank ${stream}> ",
                              "sh", "-c", "echo x; echo y >&2"});
  const std::string host = lines(run_program({"uname", "-n"}).out).front();
  EXPECT_THAT(lines(result.out),
              UnorderedElementsAre(host + "/0 stdout> x", host + "/1 stdout> x"));
  EXPECT_THAT(lines(result.err),
              UnorderedElementsAre(host + "/0 stderr> y", host + "/1 stderr> y"));
  EXPECT_THAT(
      launch({"--prefix", "$time ", "echo", "x"}).out,
      ::testing::MatchesRegex("[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9][0-9][0-9] x\n"));
}

TEST_F(LaunchOutputTest, EmptyPrefixAppliesToTeedLinesToo) {
  EXPECT_EQ(launch_logged({"--prefix", "", "-t", "1", "echo", "x"}).out, "x\n");
}

TEST_F(LaunchOutputTest, WrongUsageListsTheChoicesAndStartsNothing) {
  const auto expect_usage = [&](const std::vector<std::string>& flags, const std::string& text) {
    auto arguments = flags;
    arguments.insert(arguments.end(), {"echo", "started"});
    const auto result = launch(arguments, options_);
    EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
    EXPECT_THAT(result.err, AllOf(StartsWith("distrun launch: "), HasSubstr(text)));
    EXPECT_EQ(result.out, "");
  };
  expect_usage({"--prefix", "$rnak"}, "--prefix: unknown variable ${rnak}; use ${role_name}");
  expect_usage({"-t", "4"}, "--tee: '4' is neither 0 (none)");
  expect_usage({"-r", "0:1,2:3", "--nproc-per-node", "2"},
               "--redirects: local rank 2 does not exist; the last local rank on this node is 1");
  expect_usage({"--local-ranks-filter", "1"},
               "--local-ranks-filter: '1': local rank 1 does not exist");
  options_.environment.set("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "${rnak}");
  expect_usage({}, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE: unknown variable ${rnak}");
}

// Letters, torchrun's variables, and "--" after flags.
TEST_F(LaunchOutputTest, FlagsCanBeGivenInEveryForm) {
  options_.environment.set("PET_TEE", "1");
  EXPECT_EQ(launch_logged({"echo", "x"}).out, "[default0]:x\n");
  EXPECT_EQ(launch_logged({"-t", "0", "--", "echo", "x"}).out, "x\n");
  EXPECT_EQ(launch_logged({"-t0", "--local_ranks_filter=0", "echo", "x"}).out, "x\n");
}

TEST_F(LaunchOutputTest, APromptOfASingleWorkerShowsAtOnce) {
  Gate gate("GATE", options_);
  options_.on_output = [&](const std::string& out, int) {
    if (out == "name? ") gate.open();
  };
  EXPECT_EQ(launch({"sh", "-c", "printf 'name? '; read line <$GATE; echo thanks"}, options_).out,
            "name? thanks\n");
}

TEST_F(LaunchOutputTest, ProgressBarShowsAtOnceAndStaysIntact) {
  Gate bar("BAR", options_), other("OTHER", options_);
  options_.on_output = [&](const std::string& out, int) {
    if (out == "\r[default0]: 10%") other.open();
    if (out.ends_with("other\n")) bar.open();
  };
  const auto result =
      launch_logged({"--nproc-per-node", "2", "-t", "3", "sh", "-c",
                     "[ $RANK = 0 ] || { read line <$OTHER; echo other; exit; };"
                     "printf '\\r 10%%'; read line <$BAR; printf '\\r 20%%\\ndone\\n'"});
  EXPECT_EQ(result.out,
            "\r[default0]: 10%\n[default1]:other\n\r[default0]: 20%\n[default0]:done\n");
  EXPECT_EQ(files().at("attempt_0/0/stdout.log"), "\r 10%\r 20%\ndone\n");
}

// A progress bar goes to stderr, others print to stdout.
TEST_F(LaunchOutputTest, StdoutAndStderrInOneFileDoNotMixLines) {
  Gate bar("BAR", options_), other("OTHER", options_);
  options_.on_output = [&](const std::string& out, int) {
    if (out == "\r 10%") other.open();
    if (out.ends_with("other\n")) bar.open();
  };
  const auto result = run_script(
      std::string(DISTRUN_PROGRAM) +
      " launch --nproc-per-node 2 sh -c \"[ \\$RANK = 0 ] || { read line <$OTHER; echo other; exit;"
      "}; printf '\\r 10%%' >&2; read line <$BAR; printf '\\r 20%%\\n' >&2\" 2>&1");
  EXPECT_EQ(result.out, "\r 10%\nother\n\r 20%\n");
}

TEST_F(LaunchOutputTest, ALineOfTenMegabytesArrivesUnchanged) {
  for (const std::string workers : {"1", "2"}) {
    const auto result =
        launch({"--nproc-per-node", workers, "sh", "-c",
                "[ $RANK = 1 ] || { head -c 10000000 /dev/zero | tr '\\0' x; echo; }"});
    EXPECT_EQ(result.end, kSuccess);
    EXPECT_TRUE(result.out == std::string(10'000'000, 'x') + "\n") << workers;
  }
}

TEST_F(LaunchOutputTest, LongLineContinuesBehindAMark) {
  const auto result =
      launch_logged({"-t", "1", "sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' x; echo"});
  const auto pieces = lines(result.out);
  ASSERT_EQ(pieces.size(), 153u);  // Of 64 KiB each.
  EXPECT_THAT(pieces.front(), StartsWith("[default0]:x"));
  for (std::size_t i = 1; i < pieces.size(); ++i)
    EXPECT_THAT(pieces[i], StartsWith("[default0]:…x"));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), 'x'), 10'000'000);
  EXPECT_TRUE(files().at("attempt_0/0/stdout.log") == std::string(10'000'000, 'x') + "\n");
}

TEST_F(LaunchOutputTest, BinaryOutputArrivesUnchanged) {
  options_.environment.set("BYTES", folder_.path() + "/bytes");
  run_script("head -c 3000000 /dev/urandom >$BYTES");
  const std::string bytes = log_contents(folder_.path() + "/bytes");
  EXPECT_TRUE(launch({"sh", "-c", "cat $BYTES"}, options_).out == bytes);
  EXPECT_TRUE(
      launch({"--nproc-per-node", "2", "sh", "-c", "[ $RANK = 1 ] || cat $BYTES"}, options_).out ==
      bytes);
  EXPECT_EQ(launch_logged({"-t", "1", "sh", "-c", "cat $BYTES"}).end, kSuccess);
  EXPECT_TRUE(files().at("attempt_0/0/stdout.log") == bytes);
}

// The reader counts only after pipes and launcher are full.
TEST_F(LaunchOutputTest, LargeOutputArrivesWholeInBoundedMemory) {
  const std::string program =
      "import subprocess, sys\n"
      "run = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
      "size = 0\n"
      "while chunk := run.stdout.read1(1 << 20): size += len(chunk)\n"
      "print(run.wait(), size)\n";
  // The launcher is the workers' parent: when the last one has written everything, it has seen
  // everything.
  const std::string flood =
      "yes 0123456789012345678901234567890123456789 | head -c 25000000;"
      "grep VmHWM /proc/$PPID/status >>$PEAKS";
  const std::string peaks = folder_.path() + "/peaks";
  options_.environment.set("PEAKS", peaks);
  struct Case {
    std::vector<std::string> flags;
    long bytes;
  };
  const long lines_of_all = 25'000'000 / 41 * 8 + 8;  // The last one of each is incomplete.
  for (const auto& [flags, bytes] :
       {Case{{}, 200'000'000}, Case{{"--prefix", "${rank} "}, 200'000'000 + 2 * lines_of_all}}) {
    std::vector<std::string> arguments = {
        "python3", "-c", program, DISTRUN_PROGRAM, "launch", "--nproc-per-node", "8"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"sh", "-c", flood});
    const auto result = run_program(arguments, options_);
    std::istringstream said(result.out);
    long status = -1, size = 0;
    said >> status >> size;
    EXPECT_EQ(status, 0) << result.err;
    // A line break may precede an incomplete last line.
    EXPECT_NEAR(static_cast<double>(size), static_cast<double>(bytes), 8);
#ifndef __SANITIZE_ADDRESS__
    std::ifstream file(peaks);
    std::string name, unit;
    int seen = 0;
    for (long kilobytes = 0; file >> name >> kilobytes >> unit; ++seen) {
      EXPECT_LE(kilobytes, 48 * 1024) << "of the launcher";
    }
    EXPECT_GE(seen, 8);
#endif
  }
}

TEST_F(LaunchOutputTest, UnwritableLogFolderStartsNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change the user";
  ::chmod(folder_.path().c_str(), 0755);  // Lets another user reach the program.
  const std::string program = folder_.path() + "/distrun";
  std::filesystem::copy_file(DISTRUN_PROGRAM, program);
  const auto result = run_program({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                                   program, "launch", "--log-dir", logs(), "echo", "started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, StartsWith("distrun launch: make the folder " + logs() +
                                     " (--log-dir): permission denied\n"));
  EXPECT_EQ(result.out, "");

  std::filesystem::create_directory(logs());
  EXPECT_THAT(run_program({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", program,
                           "launch", "-t3", "--log-dir", logs(), "echo", "started"})
                  .err,
              AllOf(StartsWith("distrun launch: make a folder " + logs() + "/"),
                    HasSubstr("permission denied")));
}

TEST_F(LaunchOutputTest, NamesAFileInPlaceOfTheLogFolder) {
  std::ofstream(logs()) << "here";
  const auto result = launch_logged({"echo", "started"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, HasSubstr(logs() + " (--log-dir): not a directory"));
  EXPECT_EQ(result.out, "");
}

// On a small file system, which is soon full.
class FullDiskTest : public LaunchOutputTest {
 protected:
  bool may_mount() const {
    return run_program({"unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", folder_.path()}).end ==
           kSuccess;
  }
  ProgramResult launch_there(const std::string& arguments) {
    const std::string script = "mount -t tmpfs -o size=64k tmpfs " + folder_.path() + " && exec " +
                               DISTRUN_PROGRAM + " launch --log-dir " + logs() + " " + arguments;
    const auto result = run_program({"unshare", "-m", "sh", "-c", script}, options_);
    EXPECT_FALSE(result.timed_out);
    return result;
  }
};

TEST_F(FullDiskTest, FullTeedFileEndsTheRunAndIsNamed) {
  if (!may_mount()) GTEST_SKIP() << "no file system can be mounted here";
  const auto result = launch_there(
      "--nproc-per-node 2 -t 1:1 sh -c '[ $RANK = 0 ] || exec yes;"
      "exec sleep 1000'");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(result.err, AllOf(HasSubstr("distrun: write " + logs() + "/"),
                                HasSubstr("/attempt_0/1/stdout.log: no space left on device\n")));
}

TEST_F(FullDiskTest, FullFileOfFilteredLinesIsNamed) {
  if (!may_mount()) GTEST_SKIP() << "no file system can be mounted here";
  const auto result =
      launch_there("-t 1 --prefix x123456789x123456789x123456789 --duplicate-stdout-filters y yes");
  EXPECT_THAT(result.err, HasSubstr("/filtered_stdout.log: no space left on device\n"));
}

TEST_F(FullDiskTest, RedirectedStreamFailsInTheWorker) {
  if (!may_mount()) GTEST_SKIP() << "no file system can be mounted here";
  const auto result = launch_there("-r 1 sh -c 'head -c 1000000 /dev/zero || exit 9'");
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{9}));
  EXPECT_THAT(result.err, HasSubstr("No space left on device"));
}

// As another user, because root may write everywhere.
TEST_F(FullDiskTest, NoSpaceForTemporaryFilesStartsNothing) {
  if (!may_mount()) GTEST_SKIP() << "no file system can be mounted here";
  ::chmod(folder_.path().c_str(), 0755);
  std::filesystem::copy_file(DISTRUN_PROGRAM, folder_.path() + "/distrun");
  const std::string script =
      "mount --bind " + folder_.path() +
      " /tmp && mount -t tmpfs -o mode=755 tmpfs /var/tmp && cd / && exec setpriv --reuid=65534 "
      "--regid=65534 --clear-groups env -u TMPDIR -u TEMP -u TMP /tmp/distrun launch echo started";
  const auto result = run_program({"unshare", "-m", "sh", "-c", script});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{125}));
  EXPECT_THAT(
      result.err,
      ContainsRegex("^distrun launch: make a folder /tmp/distrun_......: permission denied; "
                    "every other folder for temporary files failed too"));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace distrun
