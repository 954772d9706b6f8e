// Process groups and the rendezvous without other ranks.
#include "distrun/process_group.h"

#include <cstdlib>
#include <filesystem>
#include <type_traits>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "backends/group/rendezvous.h"
#include "common/test/folder.h"
#include "distrun/collectives.h"

namespace distrun {
namespace {

using internal::GivenRank;
using internal::Rendezvous;
using internal::rendezvous;
using ::testing::HasSubstr;

template <class Act>
std::string failure(const Act& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no exception";
}

Environment environment_with(const std::string& name, const std::string& value) {
  Environment environment;
  environment.set("RANK", "0");
  environment.set("WORLD_SIZE", "2");
  environment.set("MASTER_ADDR", "127.0.0.1");
  environment.set("MASTER_PORT", "29500");
  environment.set(name, value);
  return environment;
}

std::string rendezvous_failure(const Environment& environment,
                               const std::string& init_method = "") {
  return failure([&] { rendezvous(environment, init_method, std::chrono::seconds(1)); });
}

TEST(ProcessGroupTest, EveryCallRequiresAGroup) {
  EXPECT_FALSE(is_initialized());
  for (const auto& message :
       {failure([] { get_rank(); }), failure([] { get_world_size(); }), failure([] { barrier(); }),
        failure([] { broadcast(at::Tensor(), 0); }), failure([] { all_reduce(at::Tensor()); }),
        failure([] { default_group(); }), failure([] { destroy_process_group(); })}) {
    EXPECT_THAT(message, HasSubstr("call init_process_group() first"));
  }
}

TEST(ProcessGroupTest, RejectsUnknownBackendByName) {
  EXPECT_THAT(failure([] { init_process_group("carrier pigeon"); }),
              HasSubstr("unknown backend 'carrier pigeon'"));
  EXPECT_FALSE(is_initialized());
}

// Only options of a backend convert to BackendOptions.
struct OwnOptions : c10d::Backend::Options {};
static_assert(std::is_convertible_v<c10::intrusive_ptr<OwnOptions>, BackendOptions>);
static_assert(std::is_convertible_v<c10::intrusive_ptr<c10d::Backend::Options>, BackendOptions>);
static_assert(!std::is_constructible_v<BackendOptions, c10::intrusive_ptr<c10d::Backend>>);
static_assert(
    !std::is_constructible_v<BackendOptions, c10::intrusive_ptr<c10::intrusive_ptr_target>>);

// The rendezvous would fail, because no variable is set.
TEST(ProcessGroupTest, RejectsOptionsOfAnotherBackendBeforeTheRendezvous) {
  const auto options = c10::make_intrusive<c10d::Backend::Options>("mine");
  EXPECT_THAT(failure([&] { init_process_group({.backend_options = options}); }),
              HasSubstr("the options of a gloo group are c10d::ProcessGroupGloo::Options"));
}

class LaunchedTest : public ::testing::Test {
 protected:
  void SetUp() override { ::unsetenv("LOCAL_RANK"); }
  void TearDown() override { ::unsetenv("LOCAL_RANK"); }
};

TEST_F(LaunchedTest, LocalRankComesFromTheVariable) {
  ::setenv("LOCAL_RANK", "3", 1);
  EXPECT_EQ(get_node_local_rank(), 3);
  EXPECT_EQ(get_node_local_rank(7), 3);
}

TEST_F(LaunchedTest, WithoutTheVariableTheLocalRankIsTheFallback) {
  EXPECT_EQ(get_node_local_rank(7), 7);
  EXPECT_THAT(
      failure([] { get_node_local_rank(); }),
      HasSubstr("get_node_local_rank: the variable LOCAL_RANK is not set; start the program "
                "with `distrun launch` or torchrun, or pass a fallback_rank"));
}

TEST_F(LaunchedTest, RejectsAMalformedLocalRank) {
  ::setenv("LOCAL_RANK", "first", 1);
  EXPECT_THAT(failure([] { get_node_local_rank(0); }),
              HasSubstr("get_node_local_rank: LOCAL_RANK: 'first' is not a whole number"));
}

TEST_F(LaunchedTest, TheRunIdTellsThatALauncherStartedTheProcess) {
  ::unsetenv("TORCHELASTIC_RUN_ID");
  EXPECT_FALSE(is_torchelastic_launched());
  ::setenv("TORCHELASTIC_RUN_ID", "", 1);
  EXPECT_TRUE(is_torchelastic_launched());
  ::unsetenv("TORCHELASTIC_RUN_ID");
}

TEST(RendezvousTest, NamesAMissingVariable) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THAT(rendezvous_failure(environment_with(name, "")),
                HasSubstr("rendezvous: the variable " + name + " is not set"));
  }
}

TEST(RendezvousTest, NamesAMalformedVariable) {
  EXPECT_THAT(rendezvous_failure(environment_with("RANK", "2")),
              HasSubstr("RANK: 2 is not between 0 and 1"));
  EXPECT_THAT(rendezvous_failure(environment_with("WORLD_SIZE", "two")),
              HasSubstr("WORLD_SIZE: 'two' is not a whole number"));
  EXPECT_THAT(rendezvous_failure(environment_with("MASTER_PORT", "0")),
              HasSubstr("MASTER_PORT: 0 is not between 1 and 65535"));
}

TEST(RendezvousTest, RejectsUnsupportedInitMethodsAndNamesSupportedOnes) {
  for (const std::string method : {"tcp://127.0.0.1", "/scratch/meet", "file://meet"}) {
    EXPECT_THAT(rendezvous_failure(environment_with("DISTRUN_INIT_METHOD", method)),
                AllOf(HasSubstr("DISTRUN_INIT_METHOD: '"),
                      HasSubstr("env://, tcp://HOST:PORT and file:///absolute/path")));
    EXPECT_THAT(rendezvous_failure(environment_with("RANK", "0"), method),
                HasSubstr("init_method: '"));
    EXPECT_THROW(rendezvous(environment_with("RANK", "0"), method, std::chrono::seconds(1)),
                 c10::ValueError);
  }
}

TEST(RendezvousTest, RejectsAFileInAMissingFolderAtOnce) {
  EXPECT_THAT(rendezvous_failure(environment_with("RANK", "0"), "file:///no/such/folder/meet"),
              HasSubstr("rendezvous: the folder of /no/such/folder/meet does not exist"));
}

class FileRendezvousTest : public ::testing::Test {
 protected:
  // Without a MASTER_PORT, so that only a rendezvous in a file works.
  static Rendezvous rendezvous_by(const std::string& variable, const std::string& init_method) {
    Environment environment = environment_with("DISTRUN_INIT_METHOD", variable);
    environment.unset("MASTER_PORT");
    return rendezvous(environment, init_method, std::chrono::seconds(20));
  }
  std::string path(const std::string& name = "meet") const { return folder_ + "/" + name; }
  bool is_there(const std::string& name) const { return std::filesystem::exists(path(name)); }

  const testing::Folder own_;
  const std::string folder_ = own_.path();
};

TEST_F(FileRendezvousTest, RanksMeetInTheFileThatTheVariableNames) {
  const Rendezvous found = rendezvous_by("file://" + path("a b%20"), "");
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.world_size, 2);
  found.store->set("key", "value");
  c10d::FileStore other(path("a b%20"), 2);
  EXPECT_EQ(other.get_to_str("key"), "value");
}

TEST_F(FileRendezvousTest, InitMethodOverridesTheVariable) {
  rendezvous_by("file://" + path("outer"), "file://" + path("inner")).store->set("key", "value");
  EXPECT_TRUE(is_there("inner"));
  EXPECT_FALSE(is_there("outer"));
  EXPECT_THAT(failure([&] { rendezvous_by("file://" + path("outer"), "env://"); }),
              HasSubstr("the variable MASTER_PORT is not set"));
}

TEST_F(FileRendezvousTest, GivenRankAndWorldSizeOverrideTheVariables) {
  const auto place_of = [&](const Environment& environment, const GivenRank& given) {
    const Rendezvous found =
        rendezvous(environment, "file://" + path(), std::chrono::seconds(20), given);
    return std::pair(found.rank, found.world_size);
  };
  EXPECT_EQ(place_of(Environment(), {.rank = 2, .world_size = 3}), std::pair(2, 3));
  EXPECT_EQ(place_of(environment_with("RANK", "0"), {.rank = 1}), std::pair(1, 2));
  EXPECT_EQ(place_of(environment_with("RANK", "1"), {.world_size = 3}), std::pair(1, 3));
}

class TcpRendezvousTest : public ::testing::Test {
 protected:
  // The URL of a port that this process keeps open: rank 0 shares it.
  std::string url() const { return "tcp://127.0.0.1:" + std::to_string(server_.getPort()); }
  static Rendezvous join(const Environment& environment, const std::string& init_method) {
    return rendezvous(environment, init_method, std::chrono::seconds(20));
  }

  c10d::TCPStore server_{"127.0.0.1",
                         {.port = 0, .isServer = true, .waitWorkers = false, .multiTenant = true}};
};

TEST_F(TcpRendezvousTest, RanksMeetAtTheAddressOfTheUrl) {
  const Rendezvous first = join({}, url() + "?rank=0&world_size=2");
  const Rendezvous second = join({}, url() + "?world_size=2&rank=1");
  EXPECT_EQ(first.rank, 0);
  EXPECT_EQ(second.rank, 1);
  EXPECT_EQ(second.world_size, 2);
  second.store->set("key", "value");
  EXPECT_EQ(first.store->get_to_str("key"), "value");
}

TEST_F(TcpRendezvousTest, TakesMissingNumbersFromTheVariables) {
  const Rendezvous found = join(environment_with("RANK", "1"), url() + "?world_size=3");
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.world_size, 3);
  EXPECT_EQ(join(environment_with("DISTRUN_INIT_METHOD", url()), "").world_size, 2);
}

TEST_F(TcpRendezvousTest, RejectsTwoDifferentRanks) {
  const auto failure_with = [&](const GivenRank& given) {
    return failure(
        [&] { rendezvous({}, url() + "?rank=0&world_size=2", std::chrono::seconds(20), given); });
  };
  EXPECT_THAT(failure_with({.rank = 1}),
              HasSubstr("rendezvous: InitOptions::rank is 1, and rank is 0 in the init_method; "
                        "give one of the two"));
  EXPECT_THAT(failure_with({.world_size = 3}), HasSubstr("InitOptions::world_size is 3, and"));
  EXPECT_EQ(failure_with({.rank = 0}), "no exception");
}

// A port of this machine that refuses connections, and cannot be opened.
class RefusingPort {
 public:
  RefusingPort() {
    sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    auto* const general = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(socket_, general, size), 0);
    EXPECT_EQ(::getsockname(socket_, general, &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~RefusingPort() { ::close(socket_); }
  RefusingPort(const RefusingPort&) = delete;
  RefusingPort& operator=(const RefusingPort&) = delete;
  std::string text() const { return std::to_string(port_); }

 private:
  const int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
};

TEST_F(TcpRendezvousTest, RankZeroHostsTheStoreUnlessTheLauncherHostsItAtThisPort) {
  const RefusingPort port;
  Environment launched = environment_with("TORCHELASTIC_USE_AGENT_STORE", "True");
  launched.set("MASTER_PORT", port.text());
  EXPECT_THAT(failure([&] {
                rendezvous(launched, "tcp://127.0.0.1:" + port.text(),
                           std::chrono::milliseconds(500));
              }),
              HasSubstr("client socket has timed out"));
  launched.set("MASTER_PORT", "1");
  EXPECT_THAT(failure([&] { join(launched, "tcp://127.0.0.1:" + port.text()); }),
              HasSubstr("EADDRINUSE"));
}

// The other rank has already released the file, so this process is its last user.
TEST_F(FileRendezvousTest, KeepsTheFileForTheNextGroup) {
  { const c10d::FileStore other(path(), 2); }
  rendezvous_by("file://" + path(), "").store->set("key", "value");
  EXPECT_TRUE(is_there("meet"));
  EXPECT_TRUE(rendezvous_by("file://" + path(), "").store->check({"key"}));
  rendezvous_by("file://" + path("next"), "");
  EXPECT_FALSE(is_there("meet"));  // This process uses another file now.
}

TEST_F(FileRendezvousTest, CreatesTwoGroupsInTurnInTheFileOfTheInitMethod) {
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  for (int group = 0; group < 2; ++group) {
    init_process_group({.init_method = "file://" + path(), .timeout = std::chrono::seconds(20)});
    EXPECT_TRUE(is_there("meet"));
    barrier();
    destroy_process_group();
  }
}

}  // namespace
}  // namespace distrun
