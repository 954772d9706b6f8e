// Real launches with --html.  cmake/check_html.py checks the page in a browser.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test/launch.h"

namespace distrun {
namespace {

using testing::Folder;
using ::testing::HasSubstr;
using testing::launch;

// The data for the page's script.
nlohmann::json data_of(const std::string& path) {
  std::ifstream file(path);
  const std::string page{std::istreambuf_iterator<char>(file), {}}, start = R"(id="data">)";
  const auto from = page.find(start);
  if (from == page.npos) return {};
  const auto begin = from + start.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

std::vector<std::string> texts_of(const nlohmann::json& data) {
  std::vector<std::string> texts;
  for (const auto& one : data["output"]) texts.push_back(one["text"]);
  return texts;
}

TEST(RunReportTest, HasTheOutputOfEachAttemptAndTheSummary) {
  const Folder folder;
  const std::string path = folder.path() + "/report.html";
  // Rank 1 fails after rank 0 has written.
  const std::string script =
      "cd " + folder.path() +
      "; echo $RANK.$TORCHELASTIC_RESTART_COUNT; here=written.$TORCHELASTIC_RESTART_COUNT\n"
      "[ $RANK = 1 ] || { touch $here; exec sleep 1000; }\n"
      "while [ ! -e $here ]; do sleep 0.02; done; exit 1";
  const auto result =
      launch({"--html", path, "--nproc-per-node", "2", "--max-restarts", "1", "sh", "-c", script});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{1}));
  const auto data = data_of(path);
  EXPECT_THAT(texts_of(data), ::testing::UnorderedElementsAre("0.0\n", "1.0\n", "0.1\n", "1.1\n"));
  EXPECT_EQ(data["run"]["headline"], "rank 1 failed: exit code 1");
  EXPECT_THAT(data["run"]["summary"].get<std::string>(), HasSubstr("after 1 of 1 restarts"));
  EXPECT_EQ(data["events"].back()["event"], "run_ended");
  EXPECT_TRUE(data["events"].back().contains("culprit"));
}

TEST(RunReportTest, HasTheLoadOfWorkersThatRunForASecond) {
  const Folder folder;
  const std::string path = folder.path() + "/report.html";
  const auto result = launch({"--html", path, "sleep", "1.5"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0})) << result.err;
  const auto data = data_of(path);
  ASSERT_GE(data["samples"].size(), 1U);
  EXPECT_EQ(data["samples"][0]["workers"][0][0], 0);
  EXPECT_GT(data["samples"][0]["workers"][0][2], 0);
  EXPECT_EQ(data["run"]["succeeded"], true);
}

TEST(RunReportTest, AFullDiskDoesNotChangeTheExitStatus) {
  const auto result = launch({"--html", "/dev/full", "true"});
  EXPECT_EQ(result.end, ProcessEnd(ExitedWith{0}));
  EXPECT_EQ(result.err, "distrun: --html: write /dev/full: no space left on device\n");
}

TEST(RunReportTest, TheOldReportStaysIfTheRunDoesNotStart) {
  const Folder folder;
  const std::string path = folder.path() + "/report.html";
  std::ofstream(path) << "old";
  EXPECT_EQ(launch({"--html", path, "/no/such/program"}).end, ProcessEnd(ExitedWith{127}));
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "old");
}

}  // namespace
}  // namespace distrun
