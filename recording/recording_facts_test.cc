#include "recording/recording_facts.h"

#include <cstdint>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace distrun {
namespace {

using std::chrono::system_clock;
using Words = std::vector<std::string>;

RecordingFacts facts_of_tests() {
  return {.distrun = "1.2.3",
          .command = {"distrun", "test", "gloo", "--record", "a.zip"},
          .is_of_tests = true,
          .failed = {"gloo.A.one", "gloo.A.two"},
          .rerun = {"distrun", "test", "--retries=2"},
          .rerun_tail = {"--", "python3", "t.py"},
          .folder = "/home/me",
          .host = "node1",
          .began = system_clock::time_point(std::chrono::milliseconds(1'700'000'000'123)),
          .ended = system_clock::time_point(std::chrono::milliseconds(1'700'000'007'123)),
          .status = 1};
}

TEST(RecordingFactsTest, AreTheSameAfterJson) {
  const auto facts = facts_of_tests();
  const auto read = parse_recording_json(recording_json(facts));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->distrun, facts.distrun);
  EXPECT_EQ(read->command, facts.command);
  EXPECT_EQ(read->rerun, facts.rerun);
  EXPECT_EQ(read->rerun_tail, facts.rerun_tail);
  EXPECT_TRUE(read->is_exact);
  EXPECT_TRUE(read->is_of_tests);
  EXPECT_EQ(read->failed, facts.failed);
  EXPECT_EQ(read->folder, facts.folder);
  EXPECT_EQ(read->host, facts.host);
  EXPECT_EQ(read->began, facts.began);
  EXPECT_EQ(read->ended, facts.ended);
  EXPECT_EQ(read->status, 1);
}

TEST(RecordingFactsTest, BytesThatAreNotUtf8AreReplaced) {
  auto facts = facts_of_tests();
  facts.folder = "/tmp/\xff";
  const auto read = parse_recording_json(recording_json(facts));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->folder, "/tmp/\uFFFD");
  EXPECT_TRUE(read->is_exact) << "the words of the command are";
  facts.rerun_tail.push_back("a\xff");
  EXPECT_FALSE(parse_recording_json(recording_json(facts))->is_exact);
}

// The JSON of valid facts, with another value.
std::string json_with(const char* name, const nlohmann::json& value) {
  auto all = nlohmann::json::parse(recording_json(facts_of_tests()));
  all[name] = value;
  return all.dump();
}

TEST(RecordingFactsTest, ValuesOutOfRangeAreErrors) {
  ASSERT_TRUE(parse_recording_json(json_with("status", 255)));
  const std::vector<std::pair<const char*, nlohmann::json>> wrong = {
      {"status", 256},
      {"status", -1},
      {"status", 1.5},
      {"began_ms", -1},
      {"ended_ms", INT64_MAX},
      {"ended_ms", 1e300},
      {"format", 0},
      {"format", 1LL << 32},
      {"failed", {1}},
      {"rerun", nlohmann::json::array()},
      {"rerun", {"/bin/sh", "-c", "echo"}},
      {"rerun", {"distrun", "launch"}},  // The facts are of tests.
      {"rerun", {"torchrun"}},
      {"host", {{{{{1}}}}}}};
  for (const auto& [name, value] : wrong) {
    EXPECT_FALSE(parse_recording_json(json_with(name, value))) << name << ' ' << value;
  }
}

TEST(RecordingFactsTest, OtherTextIsAnError) {
  for (const char* text : {"", "{}", "[1]", "null", R"({"format": 1})", R"({"format": "one"})"}) {
    const auto read = parse_recording_json(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message, "is not a recording of distrun");
  }
}

TEST(RecordingFactsTest, ANewerFormatNamesItsVersion) {
  const auto read = parse_recording_json(R"({"format": 2, "distrun": "9.0"})");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "is of distrun 9.0; this version cannot read it");
}

TEST(RecordingFactsTest, FailedTestsRunAgainBeforeTheirPython) {
  EXPECT_EQ(rerun_words(facts_of_tests()), (Words{"distrun", "test", "--retries=2", "gloo.A.one",
                                                  "gloo.A.two", "--", "python3", "t.py"}));
}

TEST(RecordingFactsTest, NothingRunsAgainIfNoTestFailed) {
  auto facts = facts_of_tests();
  facts.failed.clear();
  EXPECT_TRUE(rerun_words(facts).empty());
}

TEST(RecordingFactsTest, AFailedRunRunsAgainAsItWas) {
  RecordingFacts facts{.rerun = {"distrun", "launch"}, .rerun_tail = {"./worker", "-v"}};
  EXPECT_TRUE(rerun_words(facts).empty());
  facts.status = 3;
  EXPECT_EQ(rerun_words(facts), (Words{"distrun", "launch", "./worker", "-v"}));
}

}  // namespace
}  // namespace distrun
