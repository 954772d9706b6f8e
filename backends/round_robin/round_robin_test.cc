#include "distrun/round_robin.h"

#include <chrono>
#include <functional>
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/group/libtorch_versions.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;

// A group that rejects every collective with c10d::Backend's error, which names both.
class Refuser : public c10d::Backend {
 public:
  explicit Refuser(std::string name, int rank = 0, int size = 2)
      : Backend(rank, size), name_(std::move(name)) {}
  const std::string getBackendName() const override { return name_; }

 private:
  const std::string name_;
};

// A group that records its calls.
class Keeper : public c10d::Backend {
 public:
  Keeper() : Backend(0, 2) {}
  const std::string getBackendName() const override { return "keeper"; }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    tensors_ = &tensors;
    op_ = options.reduceOp;
    return work_;
  }

  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override { ends_ += "abort "; }
  void shutdown() override { ends_ += "shutdown "; }

  std::chrono::milliseconds timeout_{0};
  std::string ends_;
  Tensors* tensors_ = nullptr;
  c10d::ReduceOp op_;
  WorkPtr work_ = c10::make_intrusive<c10d::Work>();
};

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no exception";
}

BackendPtr of_refusers() {
  return make_round_robin({c10::make_intrusive<Refuser>("first"),
                           c10::make_intrusive<Refuser>("second"),
                           c10::make_intrusive<Refuser>("third")});
}

TEST(RoundRobinTest, GroupsTakeTurns) {
  const BackendPtr group = of_refusers();
  Tensors tensors;
  for (const std::string name : {"first", "second", "third", "first", "second"}) {
    EXPECT_EQ(refusal([&] { group->allreduce(tensors); }),
              "Backend " + name + " does not support allreduce");
  }
}

// LibTorch 2.14 renamed five collectives; the old names forward to the new ones.
std::string name_since_2_14(const std::string& name) {
  static const std::map<std::string, std::string> kNewNames = {
      {"_allgather_base", "all_gather_single"},
      {"allgather_into_tensor_coalesced", "all_gather_single_coalesced"},
      {"_reduce_scatter_base", "reduce_scatter_single"},
      {"reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"},
      {"alltoall_base", "all_to_all_single"},
  };
  const auto found = kNewNames.find(name);
  return found == kNewNames.end() ? name : found->second;
}

TEST(RoundRobinTest, EachCollectiveGoesToTheNextGroup) {
  const BackendPtr group = of_refusers();
  Tensors xs;
  TensorLists lists;
  at::Tensor a, b;
  std::vector<std::int64_t> sizes;
  const std::vector<std::pair<std::string, std::function<void()>>> calls = {
    {"broadcast", [&] { group->broadcast(xs); }},
    {"allreduce", [&] { group->allreduce(xs); }},
    {"allreduce sparse", [&] { group->allreduce_sparse(xs); }},
    {"allreduce_coalesced", [&] { group->allreduce_coalesced(xs); }},
    {"reduce", [&] { group->reduce(xs); }},
    {"allgather", [&] { group->allgather(lists, xs); }},
    {"_allgather_base", [&] { group->_allgather_base(a, b); }},
    {"allgather_coalesced", [&] { group->allgather_coalesced(lists, xs); }},
    {"allgather_into_tensor_coalesced", [&] { group->allgather_into_tensor_coalesced(xs, xs); }},
    {"gather", [&] { group->gather(lists, xs); }},
#if DISTRUN_LIBTORCH_SINCE(2, 14)
    {"all_gather_single", [&] { group->all_gather_single(a, b); }},
    {"reduce_scatter_single", [&] { group->reduce_scatter_single(a, b); }},
    {"gather_single", [&] { group->gather_single(a, b); }},
#endif
    {"scatter", [&] { group->scatter(xs, lists); }},
    {"reduce_scatter", [&] { group->reduce_scatter(xs, lists); }},
    {"_reduce_scatter_base", [&] { group->_reduce_scatter_base(a, b); }},
    {"reduce_scatter_tensor_coalesced", [&] { group->reduce_scatter_tensor_coalesced(xs, xs); }},
    {"alltoall_base", [&] { group->alltoall_base(a, b, sizes, sizes); }},
    {"alltoall", [&] { group->alltoall(xs, xs); }},
  };
  const std::vector<std::string> names = {"first", "second", "third"};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::string refuses = "Backend " + names[i % 3] + " does not support ";
    EXPECT_THAT(
        refusal(calls[i].second),
        ::testing::AnyOf(refuses + calls[i].first, refuses + name_since_2_14(calls[i].first)));
  }
}

TEST(RoundRobinTest, PassesOnTensorsOptionsAndWork) {
  const auto keeper = c10::make_intrusive<Keeper>();
  const BackendPtr group = make_round_robin({keeper});
  Tensors tensors;
  EXPECT_EQ(group->allreduce(tensors, {.reduceOp = c10d::ReduceOp::MAX}), keeper->work_);
  EXPECT_EQ(keeper->tensors_, &tensors);
  EXPECT_EQ(keeper->op_, c10d::ReduceOp::MAX);
}

TEST(RoundRobinTest, PassesTimeoutShutdownAndAbortToEveryGroup) {
  const auto first = c10::make_intrusive<Keeper>(), second = c10::make_intrusive<Keeper>();
  const BackendPtr group = make_round_robin({first, second});
  group->setTimeout(std::chrono::seconds(7));
  group->shutdown();
  group->abort();
  for (const auto& keeper : {first, second}) {
    EXPECT_EQ(keeper->timeout_, std::chrono::seconds(7));
    EXPECT_EQ(keeper->ends_, "shutdown abort ");
  }
}

TEST(RoundRobinTest, RejectsPointToPointAndBarriers) {
  const BackendPtr group = of_refusers();
  Tensors tensors;
  for (const auto& message :
       {refusal([&] { group->send(tensors, 1, 0); }), refusal([&] { group->recv(tensors, 1, 0); }),
        refusal([&] { group->recvAnysource(tensors, 0); }), refusal([&] { group->barrier(); })}) {
    EXPECT_THAT(message, HasSubstr("Backend round_robin does not support"));
  }
}

TEST(RoundRobinTest, TakesRankAndSizeFromItsGroups) {
  const BackendPtr group = make_round_robin({c10::make_intrusive<Refuser>("", 2, 3)});
  EXPECT_EQ(group->getRank(), 2);
  EXPECT_EQ(group->getSize(), 3);
}

TEST(RoundRobinTest, RejectsMissingAndMismatchedGroups) {
  EXPECT_EQ(refusal([] { make_round_robin({}); }), "round robin: no group to pass collectives to");
  EXPECT_EQ(refusal([] {
              make_round_robin({c10::make_intrusive<Refuser>(""), nullptr});
            }),
            "round robin: group 1 of 2 is null");
  for (const auto& [rank, size] : {std::pair(1, 2), std::pair(0, 3)}) {
    const auto other = c10::make_intrusive<Refuser>("", rank, size);
    EXPECT_EQ(refusal([&] {
                make_round_robin({c10::make_intrusive<Refuser>(""), other});
              }),
              "round robin: groups have different ranks: this is rank 0 of 2 in the first "
              "and rank " +
                  std::to_string(rank) + " of " + std::to_string(size) + " in another");
  }
}

}  // namespace
}  // namespace distrun
