// The workers of a check, as threads of this process, with a store.
#include "launcher/preflight/check_rank.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/os/network_interface.h"
#include "common/test/folder.h"
#include "distrun/store_client.h"
#include "distrun/store_server.h"
#include "launcher/preflight/network_facts.h"
#include "launcher/preflight/peer_connections.h"
#include "launcher/preflight/torch_version.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

class CheckRankTest : public ::testing::Test {
 protected:
  CheckRankTest() : store_(StoreServer::listen(io_, {}).value()) {
    thread_ = std::thread([this] { io_.run(); });
    environment_.set("MASTER_ADDR", "127.0.0.1");
    environment_.set("MASTER_PORT", std::to_string(store_->port()));
    environment_.set("PYTHON_EXEC", "/no/python");
    environment_.set("TMPDIR", folder_.path());
    environment_.set("GLOO_SOCKET_IFNAME", "lo");  // The look-up of the name does not matter.
    environment_.set("OMP_NUM_THREADS", "1");      // Nor does a limit of CPU time.
  }
  ~CheckRankTest() override {
    io_.stop();
    thread_.join();
  }

  // An error or findings; both may be empty.
  struct End {
    std::vector<std::string> findings;
    std::string error;
  };

  std::future<End> rank(int rank, int ranks, int local_rank,
                        std::chrono::milliseconds limit = 10s) {
    Environment environment = environment_;
    environment.set("RANK", std::to_string(rank));
    environment.set("WORLD_SIZE", std::to_string(ranks));
    environment.set("LOCAL_RANK", std::to_string(local_rank));
    return std::async(std::launch::async, [environment, rank, limit] {
      auto findings = check_as_rank(environment, "host-" + std::to_string(rank), limit);
      if (!findings) return End{.findings = {}, .error = findings.error().message};
      return End{.findings = std::move(*findings), .error = ""};
    });
  }

  boost::asio::io_context io_;
  std::unique_ptr<StoreServer> store_;
  std::thread thread_;
  testing::Folder folder_;
  Environment environment_;
};

TEST_F(CheckRankTest, OnlyRank0ReturnsTheFindings) {
  auto first = rank(0, 2, 0);
  environment_.set("NCCL_DEBUG", "INFO");
  auto second = rank(1, 2, 0);
  const End all = first.get(), none = second.get();
  EXPECT_EQ(all.error + none.error, "");
  EXPECT_THAT(all.findings,
              ElementsAre("NCCL_DEBUG differs: not set on node 0 (host-0), INFO on node 1 "
                          "(host-1): set the same value on all nodes"));
  EXPECT_THAT(none.findings, IsEmpty());
}

TEST_F(CheckRankTest, EachNodeReadsItsClockThreeTimes) {
  auto first = rank(0, 2, 0), second = rank(1, 2, 0);
  EXPECT_EQ(first.get().error + second.get().error, "");
  auto store = StoreClient::connect({"127.0.0.1", store_->port()}, 10s).value();
  for (const char* key : {"check/reach/0", "check/reach/1"}) {
    const auto text = store.get(key).value();
    ASSERT_TRUE(text) << key;
    EXPECT_EQ(decode_reach(*text).value().clock.size(), 3U) << key;
  }
}

// The engine does not count the nodes.
TEST_F(CheckRankTest, OnlyLocalRank0OfEachNodeTakesPart) {
  auto first = rank(0, 4, 0), second = rank(1, 4, 1);
  environment_.set("TMPDIR", "/no/folder");
  auto third = rank(2, 4, 0), fourth = rank(3, 4, 1);
  const End all = first.get();
  EXPECT_EQ(all.error + second.get().error + third.get().error + fourth.get().error, "");
  EXPECT_THAT(all.findings,
              ElementsAre("node 1 (host-2): the folder for temporary files, /no/folder (TMPDIR), "
                          "does not exist: make it, or set TMPDIR to another folder"));
}

TEST_F(CheckRankTest, NamesRanksThatDoNotAnswer) {
  EXPECT_EQ(rank(0, 3, 0, 100ms).get().error,
            "ranks 1, 2 did not answer within 0.1 s: look for a file system that hangs on its "
            "node");
}

TEST_F(CheckRankTest, RunsOnlyAsAWorker) {
  const auto alone = check_as_rank(Environment(), "host");
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().message, "check-rank is for distrun itself: run distrun check");
}

TEST_F(CheckRankTest, NamesAStoreThatCannotBeReached) {
  environment_.set("MASTER_PORT", "1");
  EXPECT_THAT(rank(0, 1, 0, 1ms).get().error, ::testing::StartsWith("connect to the store: "));
}

TEST(PeerConnectionsTest, NamesPeersThatDoNotListen) {
  auto here = PeerListener::listen("127.0.0.1").value();
  auto there = PeerListener::listen("127.0.0.1").value();
  const std::uint16_t gone = [] { return PeerListener::listen("127.0.0.1").value().port(); }();
  const auto unreachable =
      here.connect_to({{1, 1, "127.0.0.1", there.port()}, {2, 2, "127.0.0.1", gone}});
  ASSERT_EQ(unreachable.size(), 1U);
  EXPECT_EQ(unreachable[0].node, 2);
  EXPECT_EQ(unreachable[0].problem, "connection refused");
}

TEST(PeerConnectionsTest, ListensOnlyAtAddressesOfThisNode) {
  const auto listener = PeerListener::listen("192.0.2.1");
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().message, "listen at 192.0.2.1: cannot assign requested address");
}

TEST(PeerConnectionsTest, LinkLocalAddressesGetTheInterfaceOfThisNode) {
  EXPECT_EQ(address_from_here("fe80::2%ib0", "fe80::1%eth0"), "fe80::2%eth0");
  EXPECT_EQ(address_from_here("10.0.0.2", "10.0.0.1"), "10.0.0.2");
}

class TorchVersionTest : public ::testing::Test {
 protected:
  std::optional<std::string> version_of(const std::string& script,
                                        std::chrono::milliseconds limit = 30s) {
    const std::string python = folder_.path() + "/python";
    std::ofstream(python) << "#!/bin/sh\n" << script << '\n';
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    environment_.set("PYTHON_EXEC", python);
    environment_.set("PATH", "/usr/bin:/bin");
    return TorchVersion(environment_, limit).result();
  }

  testing::Folder folder_;
  Environment environment_;
};

TEST_F(TorchVersionTest, IsWhatPythonPrints) {
  EXPECT_EQ(version_of("echo 2.13.0+cpu"), "2.13.0+cpu");
}

TEST_F(TorchVersionTest, IsEmptyWithoutPyTorchOrPython) {
  EXPECT_EQ(version_of("echo 'No package metadata' >&2; exit 1"), "");
  environment_.set("PYTHON_EXEC", "/no/python");
  EXPECT_EQ(TorchVersion(environment_).result(), "");
}

TEST_F(TorchVersionTest, IsKnownIfPythonHasAnsweredInTimeAlsoAfterIt) {
  const std::string python = folder_.path() + "/python", done = folder_.path() + "/done";
  ASSERT_EQ(::mkfifo(done.c_str(), 0600), 0);
  std::ofstream(python) << "#!/bin/sh\necho 2.13.0\nexec 1>&-\n: >" << done << '\n';
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  environment_.set("PYTHON_EXEC", python);
  TorchVersion torch(environment_, 10s);
  std::ifstream(done).get();  // Python runs before result() is called.
  EXPECT_EQ(torch.result(), "2.13.0");
}

TEST_F(TorchVersionTest, IsUnknownIfPythonHangs) {
  EXPECT_EQ(version_of("exec sleep 1000", 1ms), std::nullopt);
}

TEST(NetworkFactsTest, KnowsTheLoopbackInterface) {
  const auto interfaces = network_interfaces();
  const auto loopback = std::find_if(interfaces.begin(), interfaces.end(),
                                     [](const auto& one) { return one.name == "lo"; });
  ASSERT_NE(loopback, interfaces.end());
  EXPECT_TRUE(loopback->is_up && loopback->has_address);
  EXPECT_GT(mtu_of("lo").value_or(0), 0);
  EXPECT_EQ(address_of("lo"), "127.0.0.1");
}

TEST(NetworkFactsTest, KnowsThatAnInterfaceDoesNotExist) {
  EXPECT_EQ(mtu_of("no-such-0"), std::nullopt);
  EXPECT_EQ(mtu_of("a-name-that-is-much-too-long"), std::nullopt);
  EXPECT_EQ(address_of("no-such-0"), std::nullopt);
}

TEST(NetworkFactsTest, LooksUpTheName) {
  EXPECT_EQ(OwnNameLookUp("127.0.0.1").result(), NodeFacts::Look::kFound);
  EXPECT_EQ(OwnNameLookUp("no name").result(), NodeFacts::Look::kNotFound);
}

}  // namespace
}  // namespace distrun
