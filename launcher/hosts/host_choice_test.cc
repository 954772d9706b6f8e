#include "launcher/hosts/host_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;

// "destination address workers" of each host.
std::vector<std::string> parsed(std::string_view text) {
  auto hosts = parse_hosts(text);
  if (!hosts) return {"error: " + hosts.error().message};
  std::vector<std::string> texts;
  for (const HostChoice& host : *hosts) {
    texts.push_back(host.destination + ' ' + host.address + ' ' + host.workers.value_or("-"));
  }
  return texts;
}

TEST(HostChoiceTest, ReadsNamesUsersAndNumbersOfWorkers) {
  EXPECT_THAT(parsed("a:8, me@b:4,c,d:gpu"), ElementsAre("a a 8", "me@b b 4", "c c -", "d d gpu"));
}

TEST(HostChoiceTest, ReadsIpv6AddressesInBrackets) {
  EXPECT_THAT(parsed("[::1]:2,me@[fe80::1%eth0],10.0.0.1:3"),
              ElementsAre("::1 ::1 2", "me@fe80::1%eth0 fe80::1%eth0 -", "10.0.0.1 10.0.0.1 3"));
}

TEST(HostChoiceTest, ExpandsNumbersInBrackets) {
  EXPECT_THAT(
      parsed("gpu[1-2,7]:8,me@r[0-1]n1"),
      ElementsAre("gpu1 gpu1 8", "gpu2 gpu2 8", "gpu7 gpu7 8", "me@r0n1 r0n1 -", "me@r1n1 r1n1 -"));
}

TEST(HostChoiceTest, RejectsWhatIsNoListOfHosts) {
  EXPECT_THAT(parsed(""), ElementsAre("error: '' has an empty name"));
  EXPECT_THAT(parsed("a,,b"), ElementsAre("error: 'a,,b' has an empty name"));
  EXPECT_THAT(parsed("a:"), ElementsAre("error: 'a:' has no number of workers after the colon"));
  EXPECT_THAT(parsed("::1"),
              ElementsAre("error: '::1' has two colons; write an IPv6 address in brackets"));
  EXPECT_THAT(parsed("@a"), ElementsAre("error: '@a' has no user"));
  EXPECT_THAT(parsed("-oProxyCommand=x"), ElementsAre("error: '-oProxyCommand=x' is not a host"));
  EXPECT_THAT(parsed("a;rm"), ElementsAre("error: 'a;rm' is not a host"));
  EXPECT_THAT(parsed("a[1-"), ElementsAre("error: 'a[1-' has a bracket without the other one"));
  EXPECT_THAT(parsed("a[1-x]"), ElementsAre("error: 'a[1-x]' is not a list of hosts"));
  EXPECT_THAT(parsed("a[1-60000],b[1-60000]"), ElementsAre("error: more than 65536 hosts"));
}

}  // namespace
}  // namespace distrun
