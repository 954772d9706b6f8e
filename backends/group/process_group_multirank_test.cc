// The default group, on every rank of a real run: collectives, lost peers, abort and fork:
//
//     distrun launch --nproc-per-node 3 build/tests/backends_multirank_test
//         --gtest_filter='ProcessGroupMultirankTest.*'
//
// Every rank runs every test in the same order.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

#include "backends/test/multirank_test.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ProcessGroupMultirankTest : public MultirankTest {};

TEST_F(ProcessGroupMultirankTest, TakesRankAndWorldSizeFromTheEnvironment) {
  EXPECT_EQ(get_rank(), std::stoi(std::getenv("RANK")));
  EXPECT_EQ(get_world_size(), std::stoi(std::getenv("WORLD_SIZE")));
}

TEST_F(ProcessGroupMultirankTest, RejectsASecondInitialization) {
  EXPECT_TRUE(is_initialized());
  EXPECT_ANY_THROW(init_process_group());
  EXPECT_TRUE(is_initialized());
}

TEST_F(ProcessGroupMultirankTest, AllReduceCombinesTheValuesOfAllRanks) {
  at::Tensor sum = at::zeros({2, 3}), most = input_of(get_world_size() - 1);
  for (int rank = 0; rank < get_world_size(); ++rank) sum += input_of(rank);
  at::Tensor tensor = input();
  all_reduce(tensor);
  EXPECT_TRUE(tensor.equal(sum)) << tensor;
  tensor = input();
  all_reduce(tensor, ReduceOp::MAX);
  EXPECT_TRUE(tensor.equal(most)) << tensor;
}

TEST_F(ProcessGroupMultirankTest, AllReduceAcceptsScalarsAndEmptyTensors) {
  at::Tensor scalar = at::full({}, 2.0);
  all_reduce(scalar);
  EXPECT_EQ(scalar.item<double>(), 2.0 * get_world_size());
  at::Tensor nothing = at::empty({0, 3});
  all_reduce(nothing);
  EXPECT_EQ(nothing.numel(), 0);
}

TEST_F(ProcessGroupMultirankTest, BroadcastGivesEveryRankTheSourcesValues) {
  for (int src = 0; src < get_world_size(); ++src) {
    at::Tensor tensor = input();
    broadcast(tensor, src);
    EXPECT_TRUE(tensor.equal(input_of(src))) << tensor;
  }
}

// The launcher offers another store.
TEST_F(ProcessGroupMultirankTest, RanksMeetAtATcpUrl) {
  const auto store = default_group().getStore();
  // Rank 0 shares the port that it has opened.
  std::unique_ptr<c10d::TCPStore> server;
  if (get_rank() == 0) {
    server = std::make_unique<c10d::TCPStore>(
        "127.0.0.1", c10d::TCPStoreOptions{
                         .port = 0, .isServer = true, .waitWorkers = false, .multiTenant = true});
    store->set("port", std::to_string(server->getPort()));
  }
  const std::string url = "tcp://127.0.0.1:" + store->get_to_str("port");
  barrier();
  destroy_process_group();
  init_process_group(
      {.backend = backend(), .init_method = url, .timeout = std::chrono::seconds(30)});
  at::Tensor sum = at::ones({1});
  all_reduce(sum);
  EXPECT_EQ(sum.item<int>(), get_world_size());
  if (get_rank() != 0) return;
  default_group().getStore()->set("key", "value");
  EXPECT_GT(server->getNumKeys(), 0);  // The ranks have met here.
}

// The last rank leaves during a collective of the others.
TEST_F(ProcessGroupMultirankTest, LostPeerErrorNamesTheCollective) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  barrier();  // Every rank has now connected to the one that leaves.
  if (get_rank() == get_world_size() - 1) return destroy_process_group();
  EXPECT_THAT(
      error_of<c10::DistBackendError>([] { all_reduce(input()); }),
      ContainsRegex("all_reduce on rank " + std::to_string(get_rank()) + " of .: " + lost_peer()));
  destroy_process_group();
}

// Group ranks and global ranks differ in this group.
TEST_F(ProcessGroupMultirankTest, LostPeerErrorInASubgroupNamesTheGlobalRank) {
  if (get_world_size() != 3) GTEST_SKIP() << "is for three ranks";
  const Group pair = new_group({1, 2});
  if (pair.is_member()) barrier({.group = pair});
  if (get_rank() == 2) destroy_process_group(pair);
  if (get_rank() == 1) {
    EXPECT_THAT(error_of<c10::DistBackendError>(
                    [&] { all_reduce(input(), ReduceOp::SUM, {.group = pair}); }),
                AllOf(HasSubstr("all_reduce on rank 1 in group 1 of ranks 1, 2: "),
                      AnyOf(HasSubstr(": the connection to rank 2 was lost: "),
                            HasSubstr(": rank 2 has left the group"))));
  }
}

// The last rank does not call the collective. Without an abort, the others would wait for an hour.
TEST_F(ProcessGroupMultirankTest, AbortEndsOperationsInEveryGroup) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const Group slow = new_group(std::nullopt, {.timeout = std::chrono::hours(1)});
  barrier({.group = slow});  // All ranks have connected.
  const auto store = default_group().getStore();
  const int last = get_world_size() - 1;
  if (get_rank() != last) {
    const at::Tensor tensor = input();
    const at::Tensor other = input();
    const Work work = all_reduce(tensor, ReduceOp::SUM, {.group = slow, .async_op = true});
    const Work received = irecv(other, last, {.group = slow});  // Starts at once.
    abort_process_group();
    EXPECT_THROW(work.wait(), c10::DistBackendError);
    EXPECT_THROW(received.wait(), c10::DistBackendError);
    EXPECT_THROW(all_reduce(tensor, ReduceOp::SUM, {.group = slow}), c10::DistBackendError);
    EXPECT_THROW(all_reduce(tensor), c10::DistBackendError);
    store->set("aborted" + std::to_string(get_rank()), "");
  }
  // The last rank stays until then, because its exit would end the collectives too.
  for (int rank = 0; rank < last; ++rank) store->wait({"aborted" + std::to_string(rank)});
  destroy_process_group();
}

TEST_F(ProcessGroupMultirankTest, RejectsABroadcastFromAnImpossibleRank) {
  EXPECT_ANY_THROW(broadcast(at::ones({1}), get_world_size()));
  EXPECT_ANY_THROW(broadcast(at::ones({1}), -1));
}

// Returns what `act` returns in a forked process, or -1 after 20 seconds.
template <class Act>
int in_forked_process(const Act& act) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(act());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(ProcessGroupMultirankTest, ForkedProcessCannotUseTheGroup) {
  const pid_t parent = ::getpid();
  EXPECT_EQ(in_forked_process([parent] {
              EXPECT_EQ(error_of([] { all_reduce(input()); }),
                        c10::str("all_reduce on rank ", get_rank(), ": process ", ::getpid(),
                                 " was forked from process ", parent,
                                 ", which created the group, and cannot use it; start processes "
                                 "with spawn(), or call init_process_group() in the child"));
              return HasFailure() ? 1 : 0;
            }),
            0);
}

TEST_F(ProcessGroupMultirankTest, ForkedProcessMayCreateItsOwnGroup) {
  const Group other = new_group();
  EXPECT_EQ(in_forked_process([] {
              init_process_group(
                  {.rank = 0, .world_size = 1, .store = c10::make_intrusive<c10d::HashStore>()});
              const at::Tensor sum = at::ones({2});
              all_reduce(sum);
              destroy_process_group();
              return sum.equal(at::ones({2})) && !is_initialized() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_forked_process([] {
              destroy_process_group();  // The parent's group.
              return is_initialized() ? 1 : 0;
            }),
            0);
  barrier({.group = other});
}

}  // namespace
}  // namespace distrun
