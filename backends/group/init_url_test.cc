#include "backends/group/init_url.h"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

using Scheme = InitUrl::Scheme;
using ::testing::HasSubstr;

std::string problem_with(const std::string& text) {
  const auto url = parse_init_url(text);
  return url ? "none" : url.error().message;
}

TEST(InitUrlTest, ReadsTheHostAndThePort) {
  const InitUrl url = parse_init_url("tcp://node-1.cluster:23456").value();
  EXPECT_EQ(url.scheme, Scheme::kTcp);
  EXPECT_EQ(url.host, "node-1.cluster");
  EXPECT_EQ(url.port, 23456);
  EXPECT_FALSE(url.rank);
  EXPECT_FALSE(url.world_size);
}

TEST(InitUrlTest, ReadsAnIpv6AddressInBrackets) {
  const InitUrl url = parse_init_url("tcp://[fe80::1]:65535/").value();
  EXPECT_EQ(url.host, "fe80::1");
  EXPECT_EQ(url.port, 65535);
}

TEST(InitUrlTest, ReadsRankAndWorldSizeOfEveryScheme) {
  for (const std::string place : {"env://", "tcp://a:1", "file:///meet"}) {
    const InitUrl url = parse_init_url(place + "?world_size=4&use_libuv=0&rank=3").value();
    EXPECT_EQ(url.rank, 3) << place;
    EXPECT_EQ(url.world_size, 4) << place;
  }
  EXPECT_EQ(parse_init_url("env://?rank=0")->world_size, std::nullopt);
}

TEST(InitUrlTest, ReadsThePathOfAFileUrl) {
  const InitUrl url = parse_init_url("file:///scratch/run 7/a%20b?rank=0").value();
  EXPECT_EQ(url.scheme, Scheme::kFile);
  EXPECT_EQ(url.path, "/scratch/run 7/a%20b");
}

TEST(InitUrlTest, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"tcp://here", "'tcp://here' has no port"},
      {"tcp://[::1]", "has no port"},
      {"tcp://:80", "has no host"},
      {"tcp://[]:80", "has no host"},
      {"tcp://::1:80", "has an IPv6 address without brackets"},
      {"tcp://a/b:80", "has a path"},
      {"tcp://a:0", "has a wrong port: 0 is not between 1 and 65535"},
      {"tcp://a:80/b", "has a wrong port: '80/b' is not a whole number"},
      {"tcp://a:80?rank=-1", "has a wrong rank: -1 is not between 0 and"},
      {"tcp://a:80?world_size", "has a wrong world_size: '' is not a whole number"},
      {"tcp://a:80?rank=0&rank=1", "has the parameter 'rank' twice"},
      {"tcp://a:80?port=1", "has an unknown parameter 'port'; known are rank and world_size"},
      {"file://meet", "names no file: 'meet' is not an absolute path"},
      {"env://here", "is not an init_method"},
      {"/scratch/meet", "is not an init_method"},
      {"", "'' is not an init_method"},
  };
  for (const auto& [text, problem] : wrong) {
    EXPECT_THAT(problem_with(text),
                AllOf(HasSubstr(problem),
                      HasSubstr("; supported are env://, tcp://HOST:PORT and file:///absolute")))
        << text;
  }
}

}  // namespace
}  // namespace distrun::internal
