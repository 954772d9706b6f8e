#include "testsuites/harness/protocol/rank_frames.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

const Collective kReduce = {.op = "allreduce", .sizes = {{4, 2}, {}}, .dtype = "Float", .count = 3};

WallTime after(int count) { return WallTime(std::chrono::microseconds(count)); }

void expect_reduce(const Collective& got) {
  EXPECT_EQ(got.op, "allreduce");
  EXPECT_EQ(got.sizes, (std::vector<std::vector<std::int64_t>>{{4, 2}, {}}));
  EXPECT_EQ(got.dtype, "Float");
  EXPECT_EQ(got.count, 3);
}

TEST(RankFramesTest, SurviveAnySplitIntoPieces) {
  const std::string bytes =
      to_frame(AssertionFailed{{.file = "a.cc", .line = 7, .message = "x\nis 1", .at = after(3)}}) +
      to_frame(SkipAsked{"no GPU"}) + to_frame(PlaceTold{"in allreduce", {.counted = {kReduce}}}) +
      to_frame(CollectiveTold{"in barrier"}) +
      to_frame(TestDone{12,
                        {.counted = {kReduce},
                         .stretches = {{"0", "all", kReduce, false}},
                         .is_whole = false,
                         .times = {{{"send", "Float [4]", after(1), after(2)},
                                    {"barrier", "", after(5), {}},
                                    {"broadcast", "", after(6), {}, /*end_is_unknown=*/true}},
                                   9}}});
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, bytes.size()}) {
    RankFrames frames;
    std::vector<RankFrame> got;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      frames.add(std::string_view(bytes).substr(at, piece));
      while (auto frame = frames.next()) got.push_back(*frame);
    }
    ASSERT_EQ(got.size(), 5u);
    EXPECT_EQ(std::get<AssertionFailed>(got[0]).failure.file, "a.cc");
    EXPECT_EQ(std::get<AssertionFailed>(got[0]).failure.line, 7);
    EXPECT_EQ(std::get<AssertionFailed>(got[0]).failure.message, "x\nis 1");
    EXPECT_EQ(std::get<AssertionFailed>(got[0]).failure.at, after(3));
    EXPECT_EQ(std::get<SkipAsked>(got[1]).reason, "no GPU");
    EXPECT_EQ(std::get<PlaceTold>(got[2]).text, "in allreduce");
    expect_reduce(std::get<PlaceTold>(got[2]).collectives.counted.at(0));
    EXPECT_EQ(std::get<CollectiveTold>(got[3]).text, "in barrier");
    const auto& done = std::get<TestDone>(got[4]);
    EXPECT_EQ(done.assertions, 12);
    EXPECT_FALSE(done.collectives.is_whole);
    expect_reduce(done.collectives.counted.at(0));
    const CollectiveStretch& stretch = done.collectives.stretches.at(0);
    expect_reduce(stretch.collective);
    EXPECT_EQ(stretch.group, "0");
    EXPECT_EQ(stretch.description, "all");
    EXPECT_FALSE(stretch.has_ended);
    const auto& [operations, left_out] = done.collectives.times;
    ASSERT_EQ(operations.size(), 3U);
    EXPECT_EQ(operations[0].op, "send");
    EXPECT_EQ(operations[0].tensors, "Float [4]");
    EXPECT_EQ(operations[0].began, after(1));
    EXPECT_EQ(operations[0].ended, after(2));
    EXPECT_FALSE(operations[0].end_is_unknown);
    EXPECT_EQ(operations[1].ended, std::nullopt);
    EXPECT_FALSE(operations[1].has_completed());
    EXPECT_EQ(operations[2].ended, std::nullopt);
    EXPECT_TRUE(operations[2].has_completed());
    EXPECT_EQ(left_out, 9);
    EXPECT_FALSE(frames.is_garbage());
    EXPECT_FALSE(frames.is_within_frame());
  }
}

TEST(RankFramesTest, IgnoreEverythingAfterGarbage) {
  const std::string whole = to_frame(SkipAsked{"x"});
  std::string no_json = whole, no_mark = whole, no_kind = whole;
  no_json[8] = '?';
  no_mark[0] ^= 1;
  no_kind.replace(no_kind.find("skip"), 4, "skim");
  std::string no_size =
      to_frame(TestDone{.assertions = 1, .collectives = {.counted = {{.sizes = {{123}}}}}});
  no_size.replace(no_size.find("123"), 3, "1.5");
  for (const std::string& garbage : {std::string("hello, I am a test"), no_json, no_mark, no_kind,
                                     no_size, whole.substr(0, 4) + std::string(4, '\xff')}) {
    RankFrames frames;
    frames.add(whole + garbage + whole);
    EXPECT_TRUE(frames.next());
    EXPECT_FALSE(frames.next());
    EXPECT_TRUE(frames.is_garbage());
    EXPECT_FALSE(frames.is_within_frame());
    frames.add(whole);
    EXPECT_FALSE(frames.next());
  }
}

TEST(RankFramesTest, ReportAPartialFrame) {
  RankFrames frames;
  frames.add(to_frame(SkipAsked{"x"}).substr(0, 11));
  EXPECT_FALSE(frames.next());
  EXPECT_FALSE(frames.is_garbage());
  EXPECT_TRUE(frames.is_within_frame());
}

TEST(RankFramesTest, AcceptAnyBytesAndCutLongTexts) {
  RankFrames frames;
  frames.add(to_frame(SkipAsked{"a\xff"
                                "b"}) +
             to_frame(PlaceTold{std::string(5'000'000, 'x'), {}}));
  EXPECT_EQ(std::get<SkipAsked>(*frames.next()).reason,
            "a\xEF\xBF\xBD"
            "b");
  const auto place = std::get<PlaceTold>(*frames.next()).text;
  EXPECT_LT(place.size(), 2'000'000u);
  EXPECT_TRUE(place.ends_with("…"));
}

}  // namespace
}  // namespace distrun
