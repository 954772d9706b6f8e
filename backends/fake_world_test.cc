// How groups of "fake" come about, what their store answers, and what they count.
#include <cstdlib>

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/debug.h>

#include "backends/fake.h"
#include "backends/fake_testing.h"
#include "backends/point_to_point.h"
#include "backends/rendezvous.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

// The variables that a launcher sets, for as long as it lives.
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

TEST_F(FakeInitTest, AWorldOfAnySizeNeedsNobody) {
  init_process_group({.backend = "fake", .rank = 1'000'000, .world_size = 2'000'000});
  EXPECT_EQ(get_rank(), 1'000'000);
  all_reduce(at::ones({3}));
}

TEST_F(FakeInitTest, AGroupIsMadeAgain) {
  for (const int size : {2, 1024, 1}) {
    enter(size - 1, size);
    EXPECT_EQ(get_world_size(), size);
    EXPECT_TRUE(wire_traffic().empty());
    barrier();
    destroy_process_group();
  }
}

TEST_F(FakeInitTest, TheStoreMayBeAnotherOne) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  init_process_group({.backend = "FAKE", .rank = 1, .world_size = 2, .store = store});
  EXPECT_EQ(get_rank(), 1);
  default_group().getStore()->set("key", "value");
  EXPECT_EQ(default_group().getStore()->get_to_str("key"), "value");
  all_reduce(at::ones({3}));
}

TEST_F(FakeInitTest, WhoIsStartedByALauncherTakesItsPlaceAndMeetsNobody) {
  const Variables variables = {{"RANK", "3"},
                               {"WORLD_SIZE", "4"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", "1"},
                               {"DISTRUN_INIT_METHOD", "file:///no/such/folder/file"}};
  init_process_group("fake");
  EXPECT_EQ(get_rank(), 3);
  EXPECT_EQ(get_world_size(), 4);
  leave();
  init_process_group({.backend = "fake", .rank = 1});  // What is said goes before the variables.
  EXPECT_EQ(get_rank(), 1);
  EXPECT_EQ(get_world_size(), 4);
}

TEST_F(FakeInitTest, AnInitMethodIsHeeded) {
  EXPECT_THAT(error_of([] {
                init_process_group({.backend = "fake",
                                    .init_method = "file:///no/such/folder/file",
                                    .rank = 0,
                                    .world_size = 1});
              }),
              HasSubstr("the folder of /no/such/folder/file does not exist"));
}

// Not from elsewhere than the options, where nobody is started by a launcher.
TEST_F(FakeInitTest, WhatIsMissingIsNamed) {
  EXPECT_THAT(error_of([] { init_process_group("fake"); }), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(error_of([] { init_process_group({.backend = "fake", .world_size = 4}); }),
              HasSubstr("RANK is not set"));
  EXPECT_FALSE(is_initialized());
}

TEST_F(FakeInitTest, APlaceOutsideOfTheWorldIsRefused) {
  EXPECT_THAT(refusal({.backend = "fake", .rank = 4, .world_size = 4}),
              HasSubstr("the rank is 4; expected 0 to 3, for the world size is 4"));
  EXPECT_THAT(refusal({.backend = "fake", .rank = -2, .world_size = 4}),
              HasSubstr("the rank is -2; expected 0 to 3"));
  EXPECT_THAT(refusal({.backend = "fake", .rank = 0, .world_size = 0}),
              HasSubstr("the world size is 0; expected 1 or more"));
  EXPECT_THAT(refusal({.backend = "gloo", .rank = 4, .world_size = 4}),
              HasSubstr("the rank is 4; expected 0 to 3"));
  EXPECT_FALSE(is_initialized());
}

TEST_F(FakeInitTest, AStoreNeedsAPlaceAndNoInitMethod) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const Variables variables = {{"RANK", "0"}, {"WORLD_SIZE", "1"}};
  for (const std::string backend : {"fake", "gloo"}) {
    EXPECT_THAT(refusal({.backend = backend, .rank = 0, .store = store}),
                HasSubstr("the rank is 0 and the world size -1; expected both to be given"));
    EXPECT_THAT(refusal({.backend = backend, .world_size = 1, .store = store}),
                HasSubstr("expected both to be given"));
    EXPECT_THAT(refusal({.backend = backend,
                         .init_method = "env://",
                         .rank = 0,
                         .world_size = 1,
                         .store = store}),
                HasSubstr("there are a store and the init_method 'env://'"));
  }
  EXPECT_FALSE(is_initialized());
}

TEST_F(FakeInitTest, GlooMeetsInAStoreThatItIsGiven) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  init_process_group(
      {.timeout = std::chrono::seconds(20), .rank = 0, .world_size = 1, .store = store});
  EXPECT_EQ(get_backend(), "gloo");
  barrier();
  EXPECT_GT(store->getNumKeys(), 0);
}

// Ranks that make no dry run before it would look elsewhere for those that do.
TEST_F(FakeInitTest, ADryRunDoesNotChangeWhereTheRanksMeetAfterwards) {
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
}

TEST_F(FakeInitTest, GlooDoesNotWaitInAFakeStore) {
  EXPECT_THAT(error_of([] {
                init_process_group({.timeout = std::chrono::seconds(20),
                                    .rank = 0,
                                    .world_size = 2,
                                    .store = c10::make_intrusive<FakeStore>()});
              }),
              HasSubstr("a FakeStore keeps nothing"));
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

TEST_F(FakeInitTest, OptionsOfAnotherBackendAreRefused) {
  EXPECT_THAT(error_of<c10::TypeError>(
                  [] { enter(0, 2, c10::make_intrusive<c10d::Backend::Options>("fake")); }),
              HasSubstr("the options of a fake group are distrun::FakeOptions"));
}

TEST_F(FakeInitTest, OptionsAreCopiedAndHaveTheTimeoutOfTheGroup) {
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

// LibTorch's checks would connect to the others.
TEST_F(FakeInitTest, NothingIsComparedUnderDetail) {
  const c10d::DebugLevel before = c10d::debug_level();
  {
    const Variables variables = {{"TORCH_DISTRIBUTED_DEBUG", "DETAIL"}};
    EXPECT_EQ(error_of([] { enter(0, 2); }), "no error");
  }
  EXPECT_EQ(c10d::debug_level(), c10d::DebugLevel::Detail);
  if (is_initialized()) all_reduce(at::ones({3}));
  c10d::setDebugLevel(before);
}

TEST_F(FakeInitTest, GroupsOfSomeRanksAreMadeAtOnce) {
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

// By those too who are not in the group.
TEST_F(FakeInitTest, OptionsOfAnotherBackendAreRefusedByEveryRank) {
  enter(5, 1024);
  const auto options = c10::make_intrusive<c10d::Backend::Options>("mine");
  EXPECT_THAT(error_of<c10::TypeError>([&] {
                new_group({0, 1}, {.backend_options = options});
              }),
              HasSubstr("the options of a fake group are distrun::FakeOptions"));
}

TEST(FakeStoreTest, WhatNobodyWillSetIsAnErrorAtOnce) {
  FakeStore store;
  store.set("key", "value");
  try {
    store.get("key");
    FAIL() << "it is there";
  } catch (const c10::DistStoreError& error) {
    EXPECT_THAT(error.what_without_backtrace(), HasSubstr("get 'key': a FakeStore keeps nothing"));
  }
}

TEST(FakeStoreTest, TheOthersSeemToHaveBeenThere) {
  FakeStore store;
  store.wait({"key"});
  store.wait({"key"}, std::chrono::hours(1));
  EXPECT_EQ(store.add("count", 3), 3);
  EXPECT_EQ(store.compareSet("key", "", "mine"), "mine");
  EXPECT_EQ(store.compareSet("key", "another's", "mine"), "another's");
  EXPECT_FALSE(store.check({"key"}));
  EXPECT_FALSE(store.deleteKey("key"));
  EXPECT_EQ(store.getNumKeys(), 0);
  store.clone()->set("key", "value");
}

class WireTrafficTest : public FakeWorldTest {
 protected:
  static constexpr std::int64_t kRow = 12;  // Bytes of three floats.
  static at::Tensor rows(std::int64_t count) { return at::ones({count, 3}); }
  static Tensors list(int count) {
    Tensors all;
    for (int i = 0; i < count; ++i) all.push_back(rows(1));
    return all;
  }
  // What has been counted since the last time.
  static std::vector<WireTraffic> counted() {
    const auto all = wire_traffic();
    reset_wire_traffic();
    return all;
  }
  static auto is(const std::string& operation, std::int64_t payload, std::int64_t sent,
                 std::int64_t received) {
    return ElementsAre(WireTraffic{.operation = operation,
                                   .calls = 1,
                                   .payload = payload,
                                   .sent = sent,
                                   .received = received});
  }
};

TEST_F(WireTrafficTest, RingsOnAThousandRanks) {
  enter(5, 1024);
  all_reduce(at::ones({1024, 3}));
  EXPECT_THAT(counted(), is("all_reduce", 1024 * kRow, 2 * 1023 * kRow, 2 * 1023 * kRow));
  all_reduce_coalesced({at::ones({512, 3}), at::ones({512, 3})});
  EXPECT_THAT(counted(), is("all_reduce_coalesced", 1024 * kRow, 2 * 1023 * kRow, 2 * 1023 * kRow));
  all_gather(list(1024), rows(1));
  EXPECT_THAT(counted(), is("all_gather", kRow, 1023 * kRow, 1023 * kRow));
  all_gather_into_tensor(rows(1024), rows(1));
  EXPECT_THAT(counted(), is("all_gather_into_tensor", kRow, 1023 * kRow, 1023 * kRow));
  all_gather_coalesced({list(1024), list(1024)}, {rows(1), rows(1)});
  EXPECT_THAT(counted(), is("all_gather_coalesced", 2 * kRow, 2046 * kRow, 2046 * kRow));
  reduce_scatter(rows(1), list(1024));
  EXPECT_THAT(counted(), is("reduce_scatter", 1024 * kRow, 1023 * kRow, 1023 * kRow));
  reduce_scatter_tensor(rows(1), rows(1024));
  EXPECT_THAT(counted(), is("reduce_scatter_tensor", 1024 * kRow, 1023 * kRow, 1023 * kRow));
}

TEST_F(WireTrafficTest, RootsAndOthers) {
  enter(2, 4);
  broadcast(rows(1), 2);
  EXPECT_THAT(counted(), is("broadcast", kRow, kRow, 0));
  broadcast(rows(1), 3);
  EXPECT_THAT(counted(), is("broadcast", kRow, 0, kRow));
  reduce(rows(1), 2);
  EXPECT_THAT(counted(), is("reduce", kRow, 0, kRow));
  reduce(rows(1), 1);
  EXPECT_THAT(counted(), is("reduce", kRow, kRow, 0));
  gather(rows(1), list(4), 2);
  EXPECT_THAT(counted(), is("gather", kRow, 0, 3 * kRow));
  gather(rows(1), {}, 0);
  EXPECT_THAT(counted(), is("gather", kRow, kRow, 0));
  scatter(rows(1), list(4), 2);
  EXPECT_THAT(counted(), is("scatter", 4 * kRow, 3 * kRow, 0));
  scatter(rows(1), {}, 0);
  EXPECT_THAT(counted(), is("scatter", kRow, 0, kRow));
}

TEST_F(WireTrafficTest, AllToAllCountsWhatIsForOthers) {
  enter(1, 3);
  all_to_all_single(rows(6), rows(6));
  EXPECT_THAT(counted(), is("all_to_all_single", 6 * kRow, 4 * kRow, 4 * kRow));
  all_to_all_single(rows(9), rows(6), {5, 2, 2}, {1, 2, 3});
  EXPECT_THAT(counted(), is("all_to_all_single", 6 * kRow, 4 * kRow, 7 * kRow));
  all_to_all({rows(1), rows(2), rows(3)}, {rows(4), rows(2), rows(0)});
  EXPECT_THAT(counted(), is("all_to_all", 6 * kRow, 4 * kRow, 4 * kRow));
}

TEST_F(WireTrafficTest, OneSideOfAMessage) {
  enter(1, 3);
  send(rows(2), 0);
  EXPECT_THAT(counted(), is("send", 2 * kRow, 2 * kRow, 0));
  recv(rows(3), 0);
  EXPECT_THAT(counted(), is("recv", 3 * kRow, 0, 3 * kRow));
  recv(rows(3));
  EXPECT_THAT(counted(), is("recv", 3 * kRow, 0, 3 * kRow));
  barrier();
  EXPECT_THAT(counted(), is("barrier", 0, 0, 0));
}

TEST_F(WireTrafficTest, BytesOfTheDtypeCount) {
  enter(0, 2);
  all_reduce(at::ones({3}, at::kHalf));
  EXPECT_THAT(counted(), is("all_reduce", 6, 6, 6));
  all_reduce(at::ones({3}, at::kComplexDouble));
  EXPECT_THAT(counted(), is("all_reduce", 48, 48, 48));
}

TEST_F(WireTrafficTest, AGroupOfOneSendsNothing) {
  enter(0, 1);
  all_reduce(rows(1));
  broadcast(rows(1), 0);
  all_gather_into_tensor(rows(1), rows(1));
  reduce_scatter_tensor(rows(1), rows(1));
  all_to_all_single(rows(1), rows(1));
  gather(rows(1), list(1), 0);
  for (const WireTraffic& one : counted()) {
    EXPECT_EQ(one.payload, kRow);
    EXPECT_EQ(one.sent + one.received, 0) << one.operation;
  }
}

TEST_F(WireTrafficTest, EveryGroupCountsItsOwnAndAllAreAddedUp) {
  enter(1, 4);
  const Group pair = new_group({0, 1});
  const Group elsewhere = new_group({2, 3});
  all_reduce(rows(4));
  all_reduce(rows(2), ReduceOp::SUM, {.group = pair});
  barrier({.group = pair});
  EXPECT_THAT(wire_traffic(), ElementsAre(Field(&WireTraffic::sent, 6 * kRow)));
  EXPECT_THAT(wire_traffic(pair), ElementsAre(Field(&WireTraffic::sent, 2 * kRow),
                                              Field(&WireTraffic::operation, "barrier")));
  EXPECT_THAT(wire_traffic_of_all_groups(),
              ElementsAre(WireTraffic{.operation = "all_reduce",
                                      .calls = 2,
                                      .payload = 6 * kRow,
                                      .sent = 8 * kRow,
                                      .received = 8 * kRow},
                          WireTraffic{.operation = "barrier", .calls = 1}));
  EXPECT_THAT(error_of([&] { wire_traffic(elsewhere); }), HasSubstr("this rank is not in"));
  reset_wire_traffic_of_all_groups();
  EXPECT_TRUE(wire_traffic_of_all_groups().empty());
}

TEST_F(WireTrafficTest, OtherBackendsDoNotCount) {
  EXPECT_THAT(error_of([] { wire_traffic(); }), HasSubstr("call init_process_group() first"));
  init_process_group({.timeout = std::chrono::seconds(20),
                      .rank = 0,
                      .world_size = 1,
                      .store = c10::make_intrusive<c10d::HashStore>()});
  EXPECT_THAT(error_of<c10::ValueError>([] { wire_traffic(); }),
              HasSubstr("the default group has gloo, which does not count"));
  EXPECT_TRUE(wire_traffic_of_all_groups().empty());
  const Group fake = new_group(std::nullopt, {.backend = "fake"});
  all_reduce(rows(1), ReduceOp::SUM, {.group = fake});
  EXPECT_THAT(wire_traffic_of_all_groups(), is("all_reduce", kRow, 0, 0));
}

}  // namespace
}  // namespace distrun
