// Groups of "fake" and the answers of their store.
#include "backends/fake/test/fake_world.h"

#include <cstdlib>
#include <initializer_list>
#include <map>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "distrun/fake.h"
#include "distrun/fake_options.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

// Sets environment variables while it lives.
class Variables {
 public:
  Variables(std::initializer_list<std::map<std::string, std::string>::value_type> values)
      : values_(values) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    for (const auto& [name, value] : values_) ::unsetenv(name.c_str());
  }

 private:
  const std::map<std::string, std::string> values_;
};

class FakeInitTest : public FakeWorldTest {
 protected:
  static std::string refusal(const InitOptions& options) {
    return error_of<c10::ValueError>([&] { init_process_group(options); });
  }
};

TEST_F(FakeInitTest, WorldOfAnySizeNeedsNoOtherRank) {
  init_process_group({.backend = "fake", .rank = 1'000'000, .world_size = 2'000'000});
  EXPECT_EQ(get_rank(), 1'000'000);
  all_reduce(at::ones({3}));
}

TEST_F(FakeInitTest, GroupCanBeCreatedAgain) {
  for (const int size : {2, 1024, 1}) {
    enter(size - 1, size);
    EXPECT_EQ(get_world_size(), size);
    EXPECT_TRUE(wire_traffic().empty());
    barrier();
    destroy_process_group();
  }
}

TEST_F(FakeInitTest, AcceptsAnotherStore) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  init_process_group({.backend = "FAKE", .rank = 1, .world_size = 2, .store = store});
  EXPECT_EQ(get_rank(), 1);
  default_group().getStore()->set("key", "value");
  EXPECT_EQ(default_group().getStore()->get_to_str("key"), "value");
  all_reduce(at::ones({3}));
}

TEST_F(FakeInitTest, UsesTheLaunchersRankWithoutARendezvous) {
  const Variables variables = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "1"},
                               {"DISTRUN_INIT_METHOD", "file:///no/such/folder/file"}};
  init_process_group("fake");
  EXPECT_EQ(get_rank(), 3);
  EXPECT_EQ(get_world_size(), 4);
  leave();
  init_process_group({.backend = "fake", .rank = 1});  // Options override variables.
  EXPECT_EQ(get_rank(), 1);
  EXPECT_EQ(get_world_size(), 4);
}

TEST_F(FakeInitTest, UsesTheInitMethod) {
  EXPECT_THAT(error_of([] {
                init_process_group({.backend = "fake",
                                    .init_method = "file:///no/such/folder/file",
                                    .rank = 0,
                                    .world_size = 1});
              }),
              HasSubstr("the folder of /no/such/folder/file does not exist"));
}

// Without a launcher, only the options can give rank and world size.
TEST_F(FakeInitTest, NamesAMissingRankOrWorldSize) {
  EXPECT_THAT(error_of([] { init_process_group({.backend = "fake", .rank = 0}); }),
              HasSubstr("WORLD_SIZE is not set, and InitOptions::world_size is not given"));
  EXPECT_THAT(error_of([] { init_process_group({.backend = "fake", .world_size = 4}); }),
              HasSubstr("RANK is not set, and InitOptions::rank is not given"));
  EXPECT_FALSE(is_initialized());
}

TEST_F(FakeInitTest, RejectsImpossibleRanksAndSizes) {
  EXPECT_THAT(refusal({.backend = "fake", .rank = 4, .world_size = 4}),
              HasSubstr("the rank is 4; expected 0 to 3 (the world size is 4)"));
  EXPECT_THAT(refusal({.backend = "fake", .rank = -2, .world_size = 4}),
              HasSubstr("the rank is -2; expected 0 to 3"));
  EXPECT_THAT(refusal({.backend = "fake", .rank = 0, .world_size = 0}),
              HasSubstr("the world size is 0; expected 1 or more"));
  EXPECT_THAT(refusal({.backend = "gloo", .rank = 4, .world_size = 4}),
              HasSubstr("the rank is 4; expected 0 to 3"));
  EXPECT_FALSE(is_initialized());
}

TEST_F(FakeInitTest, StoreRequiresRankAndSizeAndNoInitMethod) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  for (const std::string backend : {"fake", "gloo"}) {
    EXPECT_THAT(refusal({.backend = backend, .rank = 0, .store = store}),
                HasSubstr("a store requires rank and world_size; the rank is 0 and the world size "
                          "is not given"));
    EXPECT_THAT(refusal({.backend = backend, .world_size = 1, .store = store}),
                HasSubstr("the rank is not given and the world size is 1"));
    EXPECT_THAT(refusal({.backend = backend,
                         .init_method = "env://",
                         .rank = 0,
                         .world_size = 1,
                         .store = store}),
                HasSubstr("give a store or an init_method ('env://'), not both"));
  }
  EXPECT_FALSE(is_initialized());
}

TEST_F(FakeInitTest, GlooUsesTheGivenStore) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  init_process_group(
      {.timeout = std::chrono::seconds(20), .rank = 0, .world_size = 1, .store = store});
  EXPECT_EQ(get_backend(), "gloo");
  barrier();
  EXPECT_GT(store->getNumKeys(), 0);
}

// Otherwise ranks with and without a dry run would use different keys.
TEST_F(FakeInitTest, DryRunDoesNotChangeTheKeysOfLaterWorlds) {
  const auto number_of_world = [] {
    leave();
    const auto store = c10::make_intrusive<c10d::HashStore>();
    init_process_group(
        {.timeout = std::chrono::seconds(20), .rank = 0, .world_size = 1, .store = store});
    default_group().getStore()->set("probe", "here");
    for (int i = 1; i < 1000; ++i) {
      if (store->check({"default_pg#" + std::to_string(i) + "/0//probe"})) return i;
    }
    return store->check({"default_pg/0//probe"}) ? 0 : -1;
  };
  const int before = number_of_world();
  ASSERT_GE(before, 0);
  enter(0, 2);
  EXPECT_EQ(number_of_world(), before + 1);
  leave();
  const auto store = c10::make_intrusive<c10d::HashStore>();
  init_process_group({.backend = "fake", .rank = 0, .world_size = 2, .store = store});
  EXPECT_EQ(number_of_world(), before + 2);
}

// The keys of the previous world hold addresses of closed sockets.
TEST_F(FakeInitTest, DryRunsInOneStoreUseFreshKeys) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (int i = 0; i < 2; ++i) {
    init_process_group({.backend = "fake",
                        .timeout = std::chrono::seconds(20),
                        .rank = 0,
                        .world_size = 1,
                        .store = store});
    EXPECT_FALSE(default_group().getStore()->check({"probe"}));
    default_group().getStore()->set("probe", "here");
    leave();
  }
  init_process_group(
      {.timeout = std::chrono::seconds(20), .rank = 0, .world_size = 1, .store = store});
  EXPECT_FALSE(default_group().getStore()->check({"probe"}));
}

// LibTorch would look for a CPU backend.
TEST_F(FakeInitTest, BarriersNeedNoCpuBackend) {
  init_process_group({.backend = "cuda:fake", .rank = 0, .world_size = 4});
  barrier();
  EXPECT_TRUE(barrier({.async_op = true}).is_completed());
  monitored_barrier();
  const auto counted = wire_traffic();
  ASSERT_EQ(counted.size(), 2u);
  EXPECT_EQ(counted[0].calls, 2);
  EXPECT_EQ(counted[1].operation, "monitored_barrier");
}

TEST_F(FakeInitTest, GlooFailsAtOnceInAFakeStore) {
  EXPECT_THAT(error_of([] {
                init_process_group({.timeout = std::chrono::seconds(20),
                                    .rank = 0,
                                    .world_size = 2,
                                    .store = c10::make_intrusive<FakeStore>()});
              }),
              HasSubstr("a FakeStore stores no values"));
}

TEST_F(FakeInitTest, GlooAndFakeMayShareAGroup) {
  init_process_group({.backend = "cpu:gloo,cuda:fake",
                      .timeout = std::chrono::seconds(20),
                      .rank = 0,
                      .world_size = 1,
                      .store = c10::make_intrusive<c10d::HashStore>()});
  all_reduce(at::ones({3}));
  EXPECT_TRUE(wire_traffic().empty());
  EXPECT_EQ(default_group().getBackend(c10::DeviceType::CUDA)->getBackendName(), "fake");
}

TEST_F(FakeInitTest, RejectsOptionsOfAnotherBackend) {
  EXPECT_THAT(error_of<c10::TypeError>(
                  [] { enter(0, 2, c10::make_intrusive<c10d::Backend::Options>("fake")); }),
              HasSubstr("the options of a fake group are distrun::FakeOptions"));
}

TEST_F(FakeInitTest, CopiesOptionsAndSetsTheGroupTimeout) {
  const auto options = c10::make_intrusive<FakeOptions>();
  init_process_group({.backend = "fake",
                      .timeout = std::chrono::seconds(7),
                      .backend_options = options,
                      .rank = 0,
                      .world_size = 2});
  options->error_on_collective = true;
  barrier();
  const auto backend = default_group().getBackend(c10::DeviceType::CPU);
  EXPECT_EQ(backend->getBackendOptions()->timeout, std::chrono::seconds(7));
  set_timeout(std::chrono::seconds(8));
  EXPECT_EQ(backend->getBackendOptions()->timeout, std::chrono::seconds(8));
}

// The checks would connect to the other ranks.
TEST_F(FakeInitTest, DoesNotCompareCallsUnderDetail) {
  const c10d::DebugLevel before = c10d::debug_level();
  {
    const Variables variables = {{"TORCH_DISTRIBUTED_DEBUG", "DETAIL"}};
    EXPECT_EQ(error_of([] { enter(0, 2); }), "no error");
  }
  EXPECT_EQ(c10d::debug_level(), c10d::DebugLevel::Detail);
  if (is_initialized()) all_reduce(at::ones({3}));
  c10d::setDebugLevel(before);
}

TEST_F(FakeInitTest, CreatesSubgroupsAtOnce) {
  enter(5, 1024);
  const Group pair = new_group({5, 9}), others = new_group({0, 1});
  ASSERT_TRUE(pair.is_member());
  EXPECT_FALSE(others.is_member());
  EXPECT_EQ(get_world_size(pair), 2);
  EXPECT_EQ(get_backend(pair), "fake");
  const at::Tensor gathered = at::zeros({2, 3});
  all_gather_into_tensor(gathered, at::ones({1, 3}), {.group = pair});
  EXPECT_TRUE(gathered.equal(at::ones({2, 3})));
  barrier({.group = pair});
  const Subgroups nodes = new_subgroups(8);
  EXPECT_EQ(nodes.all.size(), 128u);
  EXPECT_EQ(get_rank(*nodes.own), 5);
  const Group local = new_group({5, 6}, {.use_local_synchronization = true});
  EXPECT_EQ(get_world_size(local), 2);
}

TEST_F(FakeInitTest, GroupWithARendezvousNeedsARealStore) {
  enter(0, 2);
  EXPECT_THAT(error_of([] { new_group(std::nullopt, {.backend = "gloo"}); }),
              HasSubstr("create the default group with another store (InitOptions::store)"));
}

// Ranks outside the group check too.
TEST_F(FakeInitTest, EveryRankRejectsOptionsOfAnotherBackend) {
  enter(5, 1024);
  const auto options = c10::make_intrusive<c10d::Backend::Options>("mine");
  EXPECT_THAT(error_of<c10::TypeError>([&] {
                new_group({0, 1}, {.backend_options = options});
              }),
              HasSubstr("the options of a fake group are distrun::FakeOptions"));
}

TEST(FakeStoreTest, GetFailsAtOnce) {
  FakeStore store;
  store.set("key", "value");
  try {
    store.get("key");
    FAIL() << "it is there";
  } catch (const c10::DistStoreError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("get 'key': a FakeStore stores no values"));
  }
}

TEST(FakeStoreTest, AnswersAsIfTheOtherRanksHadArrived) {
  const auto store = c10::make_intrusive<FakeStore>();
  store->wait({"key"});
  store->wait({"key"}, std::chrono::hours(1));
  EXPECT_EQ(store->add("count", 3), 3);
  EXPECT_EQ(store->compareSet("key", "", "mine"), "mine");
  EXPECT_EQ(store->compareSet("key", "another's", "mine"), "another's");
  EXPECT_FALSE(store->check({"key"}));
  EXPECT_FALSE(store->deleteKey("key"));
  EXPECT_EQ(store->getNumKeys(), 0);
  store->clone()->set("key", "value");
}

}  // namespace
}  // namespace distrun
