// `distrun top` and real launches.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/test/launch.h"
#include "launcher/control/run_server.h"
#include "launcher/report/run_snapshot.h"
#include "launcher/test/terminal.h"

namespace distrun {
namespace {

using ::testing::ContainsRegex;
using testing::Folder;
using ::testing::HasSubstr;
using testing::launch;
using testing::ProgramOptions;
using testing::run_program;

// The output of top for a run whose two workers wait until the file `go` exists.
struct Watched {
  testing::ProgramResult top, launch;
};
Watched watch_run(const std::function<testing::ProgramResult(const std::string& pid,
                                                             const std::string& go)>& top) {
  const Folder folder;
  const std::string go = folder.path() + "/go";
  Watched watched;
  ProgramOptions options;
  bool asked = false;
  options.on_output = [&](const std::string& out, int pid) {
    // What the second worker writes later would be output of top's interval.
    if (asked || testing::lines(out).size() < 2 || out.back() != '\n') return;
    asked = true;
    watched.top = top(std::to_string(pid), go);
    std::ofstream(go).close();
  };
  watched.launch = launch({"--nproc-per-node", "2", "sh", "-c",
                           "echo here; while [ ! -e " + go + " ]; do sleep 0.02; done"},
                          options);
  return watched;
}

TEST(TopTest, OncePrintsOneTableWithRates) {
  const auto watched = watch_run([](const std::string& pid, const std::string&) {
    return run_program({DISTRUN_PROGRAM, "top", "--once", "--interval", "0.1", pid});
  });
  EXPECT_EQ(watched.launch.end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(watched.top.end, ProcessEnd(ExitedWith{0})) << watched.top.err;
  const auto lines = testing::lines(watched.top.out);
  ASSERT_EQ(lines.size(), 4U) << watched.top.out;
  EXPECT_THAT(lines[0], HasSubstr("2 workers: sh -c "));
  EXPECT_THAT(lines[1], ContainsRegex("^rank +pid +time +CPU +memory +output +processes +state$"));
  EXPECT_THAT(lines[3],
              ContainsRegex("^ +1 +[0-9]+ +[0-9.]+ s +[0-9]+% +[0-9.]+ .iB +0 B/s +[12]  .+$"));
}

TEST(TopTest, EndsWithTheRun) {
  const auto watched = watch_run([](const std::string& pid, const std::string& go) {
    ProgramOptions options;
    options.on_output = [&](const std::string& out, int) {
      if (out.find("0 B/s") != out.npos) std::ofstream(go).close();
    };
    return run_program({DISTRUN_PROGRAM, "top", "--interval", "0.1", pid}, options);
  });
  EXPECT_EQ(watched.top.end, ProcessEnd(ExitedWith{0})) << watched.top.err;
  EXPECT_EQ(watched.top.err, "");
}

TEST(TopTest, OnATerminalEachTableReplacesTheOneBefore) {
  watch_run([](const std::string& pid, const std::string&) {
    testing::Terminal terminal({DISTRUN_PROGRAM, "top", "--interval", "0.1", pid});
    EXPECT_TRUE(terminal.wait_for("2 workers"));
    EXPECT_TRUE(terminal.wait_for("\x1b[4A\x1b[J")) << terminal.text();
    EXPECT_TRUE(terminal.wait_for("0 B/s")) << terminal.text();
    terminal.type("\x03");
    EXPECT_EQ(terminal.end(), ProcessEnd(KilledBy{SIGINT}));
    return testing::ProgramResult{};
  });
}

// A cut line must take one row, or the next table would not cover this one.
TEST(TopTest, FitsANarrowTerminal) {
  watch_run([](const std::string& pid, const std::string&) {
    testing::Terminal terminal({"sh", "-c", "stty cols 30 rows 6; exec \"$@\"", "sh",
                                DISTRUN_PROGRAM, "top", "--interval", "0.1", pid});
    EXPECT_TRUE(terminal.wait_for("\x1b[4A\x1b[J")) << terminal.text();
    terminal.type("\x03");
    terminal.end();
    std::istringstream lines(terminal.text());
    for (std::string line; std::getline(lines, line);) {
      const auto begin = line.rfind("\x1b[J");
      if (begin != line.npos) line.erase(0, begin + 3);
      if (line.ends_with('\r')) line.pop_back();
      const auto columns = std::count_if(line.begin(), line.end(), [](unsigned char byte) {
        return (byte & 0xC0) != 0x80;  // The first byte of a character.
      });
      EXPECT_LE(columns, 30) << line;
    }
    return testing::ProgramResult{};
  });
}

// A run that answers once and has then ended.
TEST(TopTest, OnceHasATableIfTheRunEndsMeanwhile) {
  boost::asio::io_context io;
  std::unique_ptr<RunServer> server;
  auto opened = RunServer::open(io, {own_pid_namespace(), ::getpid(), ::getpid()},
                                [&](std::string_view question) {
                                  EXPECT_EQ(question, "workers");
                                  boost::asio::post(io, [&server] { server.reset(); });
                                  return snapshot_json({.about = "1 worker: ./train"});
                                });
  ASSERT_TRUE(opened) << opened.error().message;
  server = std::move(*opened);
  testing::ProgramResult top;
  std::thread reader([&] {
    top = run_program(
        {DISTRUN_PROGRAM, "top", "--once", "--interval", "0.1", std::to_string(::getpid())});
  });
  io.run();
  reader.join();
  EXPECT_EQ(top.end, ProcessEnd(ExitedWith{0})) << top.err;
  EXPECT_THAT(top.out, ::testing::StartsWith("1 worker: ./train\nrank"));
}

TEST(TopTest, NamesTheRunsThatExist) {
  const auto watched = watch_run([](const std::string&, const std::string&) {
    return run_program({DISTRUN_PROGRAM, "top", "1"});
  });
  EXPECT_EQ(watched.top.end, ProcessEnd(ExitedWith{4}));
  EXPECT_THAT(
      watched.top.err,
      HasSubstr("distrun top: 1 is not the process id of a running distrun launch; your runs:\n"));
  EXPECT_THAT(watched.top.err, HasSubstr("  2 workers: sh -c "));
}

}  // namespace
}  // namespace distrun
