// Real launches with --trace.  testsuites/collectives/followed_test.py checks those with
// collectives.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using ::testing::EndsWith;
using testing::Folder;
using testing::launch;

nlohmann::json trace_at(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

// "B attempt 0", of the process with this name.
std::vector<std::string> events_of(const nlohmann::json& trace, const std::string& process) {
  std::vector<std::string> found;
  nlohmann::json pid;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string kind = event.at("ph");
    const auto args = event.value("args", nlohmann::json::object());
    if (kind == "M" && args.value("name", "") == process) pid = event.at("pid");
    if (kind == "M" || kind == "C" || event.at("pid") != pid) continue;
    found.push_back(kind + " " + event.value("name", args.value("end", "")));
  }
  return found;
}

TEST(TraceTest, HasTheLivesOfWorkersAndTheEventsOfTheRun) {
  const Folder folder;
  const std::string path = folder.path() + "/trace.json";
  const auto result = launch({"--trace", path, "--max-restarts", "1", "sh", "-c",
                              "exit $((1 - TORCHELASTIC_RESTART_COUNT))"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  const auto trace = trace_at(path);
  EXPECT_THAT(events_of(trace, "rank 0"),
              ::testing::ElementsAre("B attempt 0", "i exit code 1", "E exit code 1", "B attempt 1",
                                     "E exit code 0"));
  std::string host;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.value("name", "") == "process_name" && event.at("pid") == 2'000'000) {
      host = event.at("args").at("name");
    }
  }
  EXPECT_THAT(events_of(trace, host),
              ::testing::ElementsAre("i run_started", "B attempt 0", "i attempt_failed", "E ",
                                     "B attempt 1", "i run_ended", "E "));
}

TEST(TraceTest, HasTheLoadOfWorkersThatRunForASecond) {
  const Folder folder;
  const std::string path = folder.path() + "/trace.json";
  EXPECT_EQ(launch({"--trace", path, "sleep", "1.5"}).end, ProcessEnd(ExitedWith{0}));
  std::vector<std::string> names;
  const auto trace = trace_at(path);
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "C") names.push_back(event.at("name"));
  }
  EXPECT_THAT(names, ::testing::Contains("CPU %").Times(::testing::Ge(2)));
  EXPECT_THAT(names, ::testing::Contains("memory MiB").Times(::testing::Ge(2)));
}

TEST(TraceTest, IsWholeWhenTheLauncherIsKilled) {
  const Folder folder;
  const std::string path = folder.path() + "/trace.json";
  // The worker kills its parent, the launcher, as soon as the file has its start.
  const auto result = launch({"--trace", path, "sh", "-c",
                              "until grep -q 'rank 0' " + path +
                                  "; do sleep 0.02; done; kill -KILL $PPID; exec sleep 1000"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{137})) << result.err;
  EXPECT_THAT(events_of(trace_at(path), "rank 0"), ::testing::ElementsAre("B attempt 0"));
}

TEST(TraceTest, AFullDiskDoesNotEndTheRun) {
  const auto result = launch({"--trace", "/dev/full", "true"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_THAT(result.err, ::testing::ContainsRegex("^distrun: --trace /dev/full: [0-9]+ events are "
                                                   "missing: no space left on device\n$"));
}

TEST(TraceTest, UnwritableFileIsAnErrorBeforeTheStart) {
  const Folder folder;
  const std::string marker = folder.path() + "/started";
  const auto result = launch({"--trace", folder.path() + "/no/such", "touch", marker});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, EndsWith("/no/such: no such file or directory\n"));
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST(TraceTest, TheOldTraceStaysIfTheRunDoesNotStart) {
  const Folder folder;
  const std::string path = folder.path() + "/trace.json";
  std::ofstream(path) << "[]";
  EXPECT_EQ(launch({"--trace", path, "/no/such/program"}).end, ProcessEnd(ExitedWith{127}));
  EXPECT_EQ(trace_at(path), nlohmann::json::array());
}

TEST(TraceTest, PythonWorkersAreAskedToRecord) {
  const auto result = launch({"--trace", "/dev/null", "sh", "-c", "echo $DISTRUN_COLLECTIVES"});
  EXPECT_EQ(result.out, "1\n");
}

}  // namespace
}  // namespace distrun
