#include "recording/recording_facts.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

using std::chrono::system_clock;
using Words = std::vector<std::string>;

RecordingFacts facts_of_tests() {
  return {.distrun = "1.2.3",
          .command = {"distrun", "test", "gloo", "--record", "a.zip"},
          .rerun = {"distrun", "test", "--retries", "2"},
          .after_names = {"--", "python3", "t.py"},
          .is_of_tests = true,
          .failed = {"gloo.A.one", "gloo.A.two"},
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
  EXPECT_EQ(read->after_names, facts.after_names);
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
  EXPECT_EQ(rerun_words(facts_of_tests()), (Words{"distrun", "test", "--retries", "2", "gloo.A.one",
                                                  "gloo.A.two", "--", "python3", "t.py"}));
}

TEST(RecordingFactsTest, NothingRunsAgainIfNoTestFailed) {
  auto facts = facts_of_tests();
  facts.failed.clear();
  EXPECT_TRUE(rerun_words(facts).empty());
}

TEST(RecordingFactsTest, AFailedRunRunsAgainAsItWas) {
  RecordingFacts facts{.rerun = {"distrun", "launch"}, .after_names = {"./worker", "-v"}};
  EXPECT_TRUE(rerun_words(facts).empty());
  facts.status = 3;
  EXPECT_EQ(rerun_words(facts), (Words{"distrun", "launch", "./worker", "-v"}));
}

}  // namespace
}  // namespace distrun
