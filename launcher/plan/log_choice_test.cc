#include "launcher/plan/log_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr LocalRank kZero(0), kEleven(11);

LogChoice with(const std::string& redirects, const std::string& tees) {
  LogChoice choice;
  choice.redirects = parse_streams(redirects, 12).value();
  choice.tees = parse_streams(tees, 12).value();
  return choice;
}

StreamRoute route(const LogChoice& choice, LocalRank worker, Stream stream) {
  return route_of(choice, "/logs/run", worker, stream, 2);
}

TEST(ParseStreamsTest, OneValueAppliesToAllRanks) {
  const auto both = parse_streams("3", 2).value(), err = parse_streams("2", 2).value();
  EXPECT_TRUE(both.has(kZero, Stream::kOut) && both.has(LocalRank(1), Stream::kErr));
  EXPECT_TRUE(!err.has(kZero, Stream::kOut) && err.has(kZero, Stream::kErr));
  EXPECT_FALSE(parse_streams("0", 2)->is_any());
}

TEST(ParseStreamsTest, ListAppliesToItsRanksOnly) {
  const auto streams = parse_streams("0:3,11:1,3:0", 12).value();
  EXPECT_TRUE(streams.has(kZero, Stream::kErr));
  EXPECT_TRUE(streams.has(kEleven, Stream::kOut));
  EXPECT_FALSE(streams.has(kEleven, Stream::kErr));
  EXPECT_FALSE(streams.has(LocalRank(1), Stream::kOut));
  EXPECT_FALSE(parse_streams("3:0", 12)->is_any());
}

TEST(ParseStreamsTest, NamesInvalidValues) {
  for (const std::string wrong : {"", "4", "33", "0:4", "0:", ":1", "0:1,", "a:1", "0;1", "0:1 "}) {
    EXPECT_THAT(parse_streams(wrong, 4).error().message,
                HasSubstr("nor a list of LOCAL_RANK:VALUE such as 0:3,1:2"))
        << wrong;
  }
  EXPECT_EQ(parse_streams("0:1,11:1", 11).error().message,
            "local rank 11 does not exist; the last local rank on this node is 10");
  EXPECT_FALSE(parse_streams("-1:1", 11));
}

TEST(ParseLocalRanksTest, SplitsAtCommas) {
  EXPECT_THAT(*parse_local_ranks("0, 11", 12).value(), ElementsAre(kZero, kEleven));
  EXPECT_EQ(parse_local_ranks("", 12).value(), std::nullopt);
  EXPECT_EQ(parse_local_ranks("1,x", 12).error().message, "'1,x': 'x' is not a whole number");
  EXPECT_FALSE(parse_local_ranks("12", 12));
  EXPECT_FALSE(parse_local_ranks("0,", 12));
}

TEST(ParseFiltersTest, DoubleCommaIsLiteralComma) {
  EXPECT_THAT(parse_filters("loss,epoch"), ElementsAre("loss", "epoch"));
  EXPECT_THAT(parse_filters("a,,b,c"), ElementsAre("a,b", "c"));
  EXPECT_THAT(parse_filters("a,,,b"), ElementsAre("a,", "b"));
  EXPECT_THAT(parse_filters(""), IsEmpty());
}

TEST(LogChoiceTest, KeepsTheFolderIfAFlagAsksForFiles) {
  EXPECT_FALSE(LogChoice().keeps_files());
  EXPECT_FALSE(with("0", "3:0").keeps_files());
  EXPECT_TRUE(with("1", "0").keeps_files());
  EXPECT_TRUE(with("0", "11:2").keeps_files());
  LogChoice named;
  named.folder = "/logs";
  EXPECT_TRUE(named.keeps_files());
}

TEST(RouteTest, WithoutFlagsOutputGoesToTheConsole) {
  const StreamRoute plain = route(LogChoice(), kZero, Stream::kOut);
  EXPECT_EQ(plain.file, "");
  EXPECT_TRUE(plain.piped && plain.shown && !plain.teed);
}

TEST(RouteTest, RedirectedStreamIsTheFile) {
  const StreamRoute redirected = route(with("11:1", "0"), kEleven, Stream::kOut);
  EXPECT_EQ(redirected.file, "/logs/run/attempt_2/11/stdout.log");
  EXPECT_TRUE(!redirected.piped && !redirected.shown);
  EXPECT_EQ(route(with("11:1", "0"), kEleven, Stream::kErr).file, "");
}

TEST(RouteTest, TeedStreamGoesToFileAndConsoleEvenIfRedirected) {
  for (const std::string redirects : {"0", "3"}) {
    const StreamRoute teed = route(with(redirects, "2"), kZero, Stream::kErr);
    EXPECT_EQ(teed.file, "/logs/run/attempt_2/0/stderr.log");
    EXPECT_TRUE(teed.piped && teed.shown && teed.teed);
  }
}

TEST(RouteTest, UnlistedRanksDoNotReachTheConsole) {
  LogChoice choice = with("0", "1");
  choice.shown = std::set{kZero};
  EXPECT_TRUE(route(choice, kZero, Stream::kOut).shown);
  const StreamRoute hidden = route(choice, kEleven, Stream::kOut);
  EXPECT_TRUE(hidden.teed && !hidden.shown);
  EXPECT_FALSE(route(choice, kEleven, Stream::kErr).shown);
}

TEST(RouteTest, WithLogDirOffOutputGoesToTheConsole) {
  LogChoice choice = with("3", "1");
  choice.folder = "/dev/null";
  EXPECT_FALSE(choice.keeps_files());
  for (const Stream stream : {Stream::kOut, Stream::kErr}) {
    const StreamRoute plain = route(choice, kZero, stream);
    EXPECT_EQ(plain.file, "");
    EXPECT_TRUE(plain.piped && plain.shown && !plain.teed);
  }
}

TEST(LogFolderTest, FolderNamesMatchTorchrun) {
  EXPECT_EQ(worker_folder("/l/r", kEleven, 3), "/l/r/attempt_3/11");
  EXPECT_EQ(filtered_file("/l/r", Stream::kErr, 1), "/l/r/attempt_1/filtered_stderr.log");
}

TEST(LogFolderTest, TurnsRunIdIntoFileName) {
  EXPECT_EQ(folder_name("run-7"), "run-7");
  EXPECT_EQ(folder_name("../../etc/x\n"), ".._.._etc_x_");
  EXPECT_LE(folder_name(std::string(5000, 'x')).size(), 200u);
  EXPECT_EQ(folder_name(std::string(127, 'x') + "é"), std::string(127, 'x'));
}

TEST(LogChoiceTest, TheChoiceOfOneWorkerIsThatOfItsLocalRank) {
  LogChoice choice;
  choice.redirects = parse_streams("1:2,3:1", 4).value();
  choice.shown = parse_local_ranks("0,3", 4).value();
  const LogChoice third = log_choice_of(choice, LocalRank(3));
  EXPECT_TRUE(third.redirects.has(LocalRank(0), Stream::kOut));
  EXPECT_FALSE(third.redirects.has(LocalRank(0), Stream::kErr));
  EXPECT_EQ(third.shown, std::set{LocalRank(0)});
  const LogChoice second = log_choice_of(choice, LocalRank(2));
  EXPECT_FALSE(second.redirects.is_any());
  EXPECT_EQ(second.shown, std::set<LocalRank>());
}

}  // namespace
}  // namespace distrun
