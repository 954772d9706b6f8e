// Compares the traffic that "fake" counts with manual calculations.
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/fake/test/fake_world.h"
#include "backends/group/libtorch_versions.h"
#include "distrun/fake.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WireTrafficTest : public FakeWorldTest {
 protected:
  static constexpr std::int64_t kRow = 12;  // Bytes of three floats.
  static at::Tensor rows(std::int64_t count) { return at::ones({count, 3}); }
  static Tensors list(int count) {
    Tensors all;
    for (int i = 0; i < count; ++i) all.push_back(rows(1));
    return all;
  }
  // Returns the counts since the last call.
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

TEST_F(WireTrafficTest, CountsRingsOnAThousandRanks) {
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

TEST_F(WireTrafficTest, CountsNewNamesAsOldNames) {
  enter(5, 1024);
  all_gather_single(rows(1024), rows(1));
  EXPECT_THAT(counted(), is("all_gather_into_tensor", kRow, 1023 * kRow, 1023 * kRow));
  reduce_scatter_single(rows(1), rows(1024));
  EXPECT_THAT(counted(), is("reduce_scatter_tensor", 1024 * kRow, 1023 * kRow, 1023 * kRow));
  gather_single(rows(1));
  EXPECT_THAT(counted(), is("gather", kRow, kRow, 0));
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  at::Tensor output = rows(1024), input = rows(1);
  backend().all_gather_single(output, input)->wait();
  EXPECT_THAT(counted(), is("all_gather_into_tensor", kRow, 1023 * kRow, 1023 * kRow));
  backend().gather_into_tensor(output, input)->wait();
  EXPECT_THAT(counted(), is("gather", kRow, kRow, 0));
#endif
}

TEST_F(WireTrafficTest, CountsCollectivesThatOnlyLibTorchCalls) {
  enter(5, 1024);
  Tensors inputs = {rows(1), rows(2)}, gathered = {rows(1024), rows(2048)};
  backend().allgather_into_tensor_coalesced(gathered, inputs)->wait();
  EXPECT_THAT(counted(),
              is("all_gather_into_tensor_coalesced", 3 * kRow, 1023 * 3 * kRow, 1023 * 3 * kRow));
  backend().reduce_scatter_tensor_coalesced(inputs, gathered)->wait();
  EXPECT_THAT(counted(), is("reduce_scatter_tensor_coalesced", 1024 * 3 * kRow, 1023 * 3 * kRow,
                            1023 * 3 * kRow));
}

TEST_F(WireTrafficTest, CountsIndicesAndValuesOfSparseTensors) {
  enter(1, 2);
  const at::Tensor indices = at::tensor({0, 2}, at::kLong).view({1, 2});
  all_reduce(at::sparse_coo_tensor(indices, at::ones({2, 4}), {3, 4}));
  constexpr std::int64_t kBytes = 2 * 8 + 2 * 4 * 4;
  EXPECT_THAT(counted(), is("all_reduce", kBytes, kBytes, kBytes));
}

TEST_F(WireTrafficTest, CountsRootsAndOtherRanks) {
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

TEST_F(WireTrafficTest, AllToAllCountsOnlyPartsOfOtherRanks) {
  enter(1, 3);
  all_to_all_single(rows(6), rows(6));
  EXPECT_THAT(counted(), is("all_to_all_single", 6 * kRow, 4 * kRow, 4 * kRow));
  all_to_all_single(rows(9), rows(6), {5, 2, 2}, {1, 2, 3});
  EXPECT_THAT(counted(), is("all_to_all_single", 6 * kRow, 4 * kRow, 7 * kRow));
  all_to_all({rows(1), rows(2), rows(3)}, {rows(4), rows(2), rows(0)});
  EXPECT_THAT(counted(), is("all_to_all", 6 * kRow, 4 * kRow, 4 * kRow));
}

TEST_F(WireTrafficTest, CountsOneSideOfAMessage) {
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

TEST_F(WireTrafficTest, CountsBytesOfTheDtype) {
  enter(0, 2);
  all_reduce(at::ones({3}, at::kHalf));
  EXPECT_THAT(counted(), is("all_reduce", 6, 6, 6));
  all_reduce(at::ones({3}, at::kComplexDouble));
  EXPECT_THAT(counted(), is("all_reduce", 48, 48, 48));
}

TEST_F(WireTrafficTest, GroupOfOneSendsNothing) {
  enter(0, 1);
  all_reduce(rows(1));
  broadcast(rows(1), 0);
  all_gather_into_tensor(rows(1), rows(1));
  reduce_scatter_tensor(rows(1), rows(1));
  all_to_all_single(rows(1), rows(1));
  gather(rows(1), list(1), 0);
  const auto all = counted();
  EXPECT_EQ(all.size(), 6u);
  for (const WireTraffic& one : all) {
    EXPECT_EQ(one.payload, kRow);
    EXPECT_EQ(one.sent + one.received, 0) << one.operation;
  }
}

TEST_F(WireTrafficTest, CountsEachGroupAndAddsUpAllGroups) {
  enter(1, 4);
  const Group pair = new_group({0, 1});
  const Group elsewhere = new_group({2, 3});
  all_reduce(rows(4));
  all_reduce(rows(2), ReduceOp::SUM, {.group = pair});
  barrier({.group = pair});
  EXPECT_THAT(wire_traffic(), ElementsAre(::testing::Field(&WireTraffic::sent, 6 * kRow)));
  EXPECT_THAT(wire_traffic(pair),
              ElementsAre(::testing::Field(&WireTraffic::sent, 2 * kRow),
                          ::testing::Field(&WireTraffic::operation, "barrier")));
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
              HasSubstr("the default group uses gloo, which does not count"));
  EXPECT_TRUE(wire_traffic_of_all_groups().empty());
  const Group fake = new_group(std::nullopt, {.backend = "fake"});
  all_reduce(rows(1), ReduceOp::SUM, {.group = fake});
  EXPECT_THAT(wire_traffic_of_all_groups(), is("all_reduce", kRow, 0, 0));
}

}  // namespace
}  // namespace distrun
