#include "evidence/operations/recorded_digests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;

Operation all_reduce(std::uint32_t number) {
  return {.op = "all_reduce",
          .dtype = "Float",
          .sizes = "[1000]",
          .elements = 1000,
          .element_bytes = 4,
          .group = "0",
          .group_size = kRanks,
          .sequence = number,
          .input_digest = 0xfedcba9876543210,
          .output_digests = BlockDigests{1, 2, 3, 0xffffffff}};
}

CollectiveOfRanks every_rank(const Operation& operation) {
  CollectiveOfRanks all;
  for (int rank = 0; rank < kRanks; ++rank) all.by_rank[rank] = operation;
  return all;
}

// The file of a run with the collectives 1 to `last`.
std::string text_until(std::uint32_t last) {
  std::string text = recorded_header(kRanks) + "\n";
  for (std::uint32_t number = 1; number <= last; ++number) {
    for (int rank = 0; rank < kRanks; ++rank) {
      text += recorded_line(rank, all_reduce(number)) + "\n";
    }
  }
  return text;
}

class RecordedDigestsTest : public testing::Test {
 protected:
  RecordedDigests recorded_ = RecordedDigests::read(text_until(3)).value();

  std::string difference(const CollectiveOfRanks& all) {
    const auto found = recorded_.compare(all);
    return found ? text_of(*found) : "";
  }
};

TEST_F(RecordedDigestsTest, TheSameRunDoesNotDiffer) {
  EXPECT_EQ(recorded_.world_size(), kRanks);
  for (std::uint32_t number = 1; number <= 3; ++number) {
    EXPECT_EQ(difference(every_rank(all_reduce(number))), "");
  }
  EXPECT_EQ(recorded_.compared(), 3u);
  EXPECT_EQ(recorded_.recorded(), 3u);
}

TEST_F(RecordedDigestsTest, ALongerRunIsNotCompared) {
  EXPECT_EQ(difference(every_rank(all_reduce(4))), "");
  EXPECT_EQ(recorded_.compared(), 0u);
}

TEST_F(RecordedDigestsTest, NamesTheRankThatReceivedOtherValuesAndTheElements) {
  auto all = every_rank(all_reduce(2));
  (*all.by_rank[2].output_digests)[1] = 7;
  EXPECT_EQ(difference(all),
            "rank 2 received other values than in the recorded run in all_reduce, number 2 of "
            "group 0 (Float [1000]), in elements 64 to 127; the inputs are the same");
}

TEST_F(RecordedDigestsTest, InputsOfRanksThatAreNotSeenAreNotCalledTheSame) {
  auto all = every_rank(all_reduce(2));
  all.by_rank.erase(0);  // It is on another node.
  all.by_rank[1].output_digests->back() = 7;
  EXPECT_EQ(difference(all),
            "rank 1 received other values than in the recorded run in all_reduce, number 2 of "
            "group 0 (Float [1000]), in elements 960 to 999");
}

TEST_F(RecordedDigestsTest, TheRankThatPassedOtherValuesIsNamedAndNotThoseThatReceivedThem) {
  auto all = every_rank(all_reduce(1));
  for (auto& [rank, operation] : all.by_rank) operation.output_digests->front() = 7;
  all.by_rank[1].input_digest = 5;
  EXPECT_EQ(difference(all),
            "rank 1 passed other values than in the recorded run to all_reduce, number 1 of group "
            "0 (Float [1000])");
}

TEST_F(RecordedDigestsTest, NamesTheCallThatDiffers) {
  auto all = every_rank(all_reduce(1));
  all.by_rank[0].input_digest = 5;
  all.by_rank[1].op = all.by_rank[2].op = "broadcast";
  EXPECT_EQ(difference(all),
            "ranks 1, 2 called broadcast, number 1 of group 0 (Float [1000]); the recorded run "
            "called all_reduce (Float [1000]) there");
}

TEST_F(RecordedDigestsTest, AGroupThatIsCreatedAgainIsComparedInOrder) {
  std::string text = text_until(1);
  Operation again = all_reduce(1);
  again.input_digest = 5;
  for (int rank = 0; rank < kRanks; ++rank) text += recorded_line(rank, again) + "\n";
  recorded_ = RecordedDigests::read(text).value();
  EXPECT_EQ(difference(every_rank(all_reduce(1))), "");
  EXPECT_EQ(difference(every_rank(again)), "");
  EXPECT_EQ(recorded_.compared(), 2u);
}

TEST_F(RecordedDigestsTest, WithoutDigestsNoValuesAreCompared) {
  Operation no_digests = all_reduce(1);
  no_digests.input_digest.reset();
  no_digests.output_digests.reset();
  EXPECT_EQ(difference(every_rank(no_digests)), "");
  EXPECT_EQ(recorded_.compared(), 0u);
}

TEST(RecordedDigestsFileTest, AnIncompleteLastLineIsIgnored) {
  const std::string text = text_until(2);
  auto recorded = RecordedDigests::read(text.substr(0, text.size() - 10)).value();
  recorded.compare(every_rank(all_reduce(2)));
  EXPECT_EQ(recorded.compared(), 1u);
}

TEST(RecordedDigestsFileTest, AHeaderBeginsAgain) {
  const auto recorded = RecordedDigests::read(text_until(5) + text_until(2)).value();
  EXPECT_EQ(recorded.recorded(), 2u);
}

TEST(RecordedDigestsFileTest, OtherTextsAreRefused) {
  const auto error = [](const std::string& text) {
    return RecordedDigests::read(text).error().message;
  };
  EXPECT_EQ(error(""), "is empty; write it with --save-digests");
  EXPECT_EQ(error("hello\n"), "line 1: was not written by --save-digests");
  EXPECT_EQ(error(R"({"format":"distrun-digests-2","world_size":4})"
                  "\n"),
            "line 1: was not written by --save-digests");
  EXPECT_EQ(error(R"({"format":"distrun-digests-1","world_size":0})"
                  "\n"),
            "line 1: was not written by --save-digests");
  const std::string good = recorded_line(0, all_reduce(1));
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"rank\":0", "\"rank\":1.5"},
                                                        {"fedc", "fedx"},
                                                        {"fedc", "fed"},
                                                        {"\"number\":1", "\"number\":-1"},
                                                        {"\"op\":", "\"ops\":"}}) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_EQ(error(recorded_header(4) + "\n" + bad + "\n"),
              "line 2: was not written by --save-digests")
        << bad;
  }
}

}  // namespace
}  // namespace distrun
