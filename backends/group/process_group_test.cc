// Process groups and the rendezvous without other ranks.
#include "distrun/process_group.h"

#include <cstdlib>
#include <filesystem>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

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
  for (const std::string method : {"tcp://127.0.0.1:29500", "/scratch/meet", "file://meet"}) {
    EXPECT_THAT(
        rendezvous_failure(environment_with("DISTRUN_INIT_METHOD", method)),
        AllOf(HasSubstr("DISTRUN_INIT_METHOD: '"), HasSubstr("env:// and file:///absolute/path")));
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
