// Real launches with --events.
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::Folder;
using testing::launch;

using Events = std::vector<nlohmann::json>;

Events read_events(const std::string& path) {
  Events events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

std::vector<std::string> names(const Events& events) {
  std::vector<std::string> all;
  for (const auto& event : events) all.push_back(event["event"]);
  return all;
}

TEST(EventsTest, EventsOfARunAreInOrder) {
  const Folder folder;
  const std::string path = folder.path() + "/events.jsonl";
  const auto result =
      launch({"--events", path, "--rdzv-id", "story", "sh", "-c", "echo $MASTER_PORT; echo $$"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  EXPECT_EQ(result.err, "");
  const Events events = read_events(path);
  ASSERT_THAT(names(events), ElementsAre("run_started", "attempt_started", "worker_started",
                                         "worker_ended", "run_ended"));
  const auto printed = testing::lines(result.out);
  EXPECT_THAT(events[0]["store"].get<std::string>(), EndsWith(":" + printed[0]));
  EXPECT_EQ(events[2]["pid"], std::stoi(printed[1]));
  EXPECT_EQ(events[3]["pid"], std::stoi(printed[1]));
  EXPECT_EQ(events[3]["exit_code"], 0);
  EXPECT_EQ(events[4]["exit_status"], 0);
  for (const auto& event : events) EXPECT_EQ(event["run_id"], "story");
}

TEST(EventsTest, AFailureNamesTheCulprit) {
  const Folder folder;
  const std::string path = folder.path() + "/events.jsonl";
  launch({"--events", path, "--nproc-per-node", "2", "sh", "-c",
          "[ $RANK = 0 ] || kill -KILL $$; exec sleep 1000"});
  const Events events = read_events(path);
  ASSERT_FALSE(events.empty());
  const auto culprit = nlohmann::json({{"rank", 1}, {"local_rank", 1}, {"signal", "SIGKILL"}});
  EXPECT_EQ(events.back()["event"], "run_ended");
  EXPECT_EQ(events.back()["cause"], "worker_failed");
  EXPECT_EQ(events.back()["culprit"], culprit);
}

TEST(EventsTest, RunsMayShareAFile) {
  const Folder folder;
  const std::string path = folder.path() + "/events.jsonl";
  for (const char* id : {"one", "other"}) launch({"--events", path, "--rdzv-id", id, "true"});
  const Events events = read_events(path);
  ASSERT_EQ(events.size(), 10u);
  EXPECT_EQ(events.front()["run_id"], "one");
  EXPECT_EQ(events.back()["run_id"], "other");
}

TEST(EventsTest, UnwritableFileIsAnErrorBeforeTheStart) {
  const Folder folder;
  const std::string marker = folder.path() + "/started", fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto result = launch({"--events", folder.path() + "/no/such", "touch", marker});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, EndsWith("/no/such: no such file or directory\n"));
  result = launch({"--events", fifo, "touch", marker});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{2}));
  EXPECT_THAT(result.err, EndsWith("has no reader; start the reader first\n"));
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST(EventsTest, AFullDiskDoesNotEndTheRun) {
  const auto result = launch({"--events", "/dev/full", "sh", "-c", "echo done"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(result.out, "done\n");
  EXPECT_EQ(result.err,
            "distrun: --events /dev/full: 5 lines are missing: no space left on device\n");
}

// A reader opens the FIFO and never reads. The run must end, and only whole lines may be lost.
TEST(EventsTest, StalledReaderDoesNotDelayTheRun) {
  const Folder folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto result = launch({"--events", fifo, "true"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(result.err, "") << "five lines fit into a pipe";
}

}  // namespace
}  // namespace distrun
