// The backend shm on several hosts. Ranks with even numbers say that they are on one host, and
// those with odd numbers on another.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/group/shared_tensors.h"
#include "backends/shm/test/mapped_files.h"
#include "backends/test/multirank_test.h"
#include "distrun/backend_registry.h"
#include "distrun/collectives.h"
#include "distrun/point_to_point.h"
#include "distrun/split_group.h"

namespace distrun::hosts {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HostsMultirankTest : public MultirankTest {
 protected:
  void SetUp() override {
    MultirankTest::SetUp();
    if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
    const char* before = std::getenv(kHostId);
    before_ = before == nullptr ? "" : before;
    be_on(get_rank() % 2);
  }
  void TearDown() override {
    ::setenv(kHostId, before_.c_str(), 1);
    MultirankTest::TearDown();
  }

  static constexpr const char* kHostId = "DISTRUN_HOST_ID";

  static void be_on(int host) { ::setenv(kHostId, std::to_string(host).c_str(), 1); }
  static Group make(const std::string& backend) {
    return new_group(std::nullopt, {.timeout = std::chrono::seconds(30), .backend = backend});
  }
  static std::string backend_of(const Group& group) {
    return group.process_group()->getBackend(c10::DeviceType::CPU)->getBackendName();
  }

  std::string before_;
};

// Values whose sum depends on the order, as in (1e8 + 1) - 1e8.
at::Tensor values_of(int rank) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(rank));
  const at::Tensor exponents = at::randint(-6, 7, {30'000}, generator, at::kFloat);
  return at::randn({30'000}, generator, at::kFloat) * at::pow(10, exponents);
}

// The sum on one of the hosts.
at::Tensor sum_of(int host) {
  at::Tensor sum = values_of(host);
  for (int rank = host + 2; rank < get_world_size(); rank += 2) sum = sum + values_of(rank);
  return sum;
}

TEST_F(HostsMultirankTest, SumsAreThoseOfTheHostsInTheOrderOfTheirRanks) {
  const Group group = make("shm");
  const at::Tensor expected = sum_of(0) + sum_of(1);
  const at::Tensor all = values_of(get_rank());
  all_reduce(all, ReduceOp::SUM, {.group = group});
  EXPECT_TRUE(all.equal(expected));
  const std::int64_t part = 30'000 / get_world_size();
  const at::Tensor mine = at::empty({part});
  const at::Tensor input = values_of(get_rank()).narrow(0, 0, part * get_world_size());
  reduce_scatter_tensor(mine, input, ReduceOp::SUM, {.group = group});
  EXPECT_TRUE(mine.equal(expected.narrow(0, get_rank() * part, part)));
}

// Gloo has no averages of integers, and no reductions of some other dtypes.
TEST_F(HostsMultirankTest, AveragesOfAllDtypesAreDividedOnce) {
  const Group group = make("shm");
  for (const auto dtype : {at::kChar, at::kByte, at::kShort, at::kInt, at::kLong}) {
    SCOPED_TRACE(dtype);
    const at::Tensor x = at::full({5}, 2 * get_rank() + 1, dtype);  // The mean is the world size.
    all_reduce(x, ReduceOp::AVG, {.group = group});
    EXPECT_TRUE(x.eq(get_world_size()).all().item<bool>()) << x;
  }
  const double mean = (get_world_size() + 1) / 2.0;
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexHalf,
                           at::kComplexFloat, at::kComplexDouble}) {
    SCOPED_TRACE(dtype);
    const at::Tensor x = at::full({5}, get_rank() + 1, at::kDouble).to(dtype);
    all_reduce(x, ReduceOp::AVG, {.group = group});
    EXPECT_TRUE(at::real(x.to(at::kComplexDouble)).eq(mean).all().item<bool>()) << x;
  }
  const at::Tensor bits = at::full({3}, 1 << get_rank(), at::kShort);
  all_reduce(bits, ReduceOp::BOR, {.group = group});
  EXPECT_TRUE(bits.eq((1 << get_world_size()) - 1).all().item<bool>());
}

// Gloo's comparisons lose a NaN that is not on the first host.
TEST_F(HostsMultirankTest, MinimumAndMaximumKeepNaN) {
  const Group group = make("shm");
  for (const auto op : {ReduceOp::MIN, ReduceOp::MAX}) {
    for (int rank = 0; rank < get_world_size(); ++rank) {
      const at::Tensor x =
          at::full({3}, get_rank() == rank ? std::nan("") : get_rank(), at::kFloat);
      all_reduce(x, op, {.group = group});
      EXPECT_TRUE(x.isnan().all().item<bool>()) << x;
    }
  }
}

// A sum of two such numbers is infinite.
TEST_F(HostsMultirankTest, HalfNumbersAreRoundedOnce) {
  const Group group = make("shm");
  const at::Tensor x = at::full({5}, 40'000, at::kHalf);
  all_reduce(x, ReduceOp::AVG, {.group = group});
  EXPECT_TRUE(x.eq(40'000).all().item<bool>()) << x;
  const at::Tensor all = at::full({2 * get_world_size()}, 40'000, at::kHalf),
                   mine = at::empty({2}, at::kHalf);
  reduce_scatter_tensor(mine, all, ReduceOp::AVG, {.group = group});
  EXPECT_TRUE(mine.eq(40'000).all().item<bool>()) << mine;
}

TEST_F(HostsMultirankTest, ASharedTensorIsReducedAndKeepsItsViews) {
  const Group group = make("shm");
  const at::Tensor all = at::full({1'000'000}, get_rank() + 1, at::kFloat);
  const at::Tensor view = all.narrow(0, 500, 1000);
  internal::share_with_group(all, *group.process_group());
  EXPECT_EQ(shm::test::mapped_file(all.const_data_ptr()), "/memfd:distrun shm (deleted)");
  all_reduce(all, ReduceOp::SUM, {.group = group});
  const int ranks = get_world_size();
  EXPECT_TRUE(view.eq(ranks * (ranks + 1) / 2).all().item<bool>());
  EXPECT_EQ(view.data_ptr<float>(), all.data_ptr<float>() + 500);
}

// Ranks 0 and 2 make different calls. Rank 1 is on the other host.
TEST_F(HostsMultirankTest, AnErrorOnOneHostIsTheErrorOfTheOthers) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs a host with two ranks";
  const Group group = make("shm");
  const std::string error = error_of([&] {
    if (get_rank() == 2) {
      barrier({.group = group});
    } else {
      all_reduce(at::ones({4}), ReduceOp::SUM, {.group = group});
    }
  });
  EXPECT_THAT(error, AllOf(HasSubstr("all_reduce of 16 bytes"), HasSubstr("barrier")))
      << get_rank();
  EXPECT_THAT(error_of([&] { barrier({.group = group}); }), HasSubstr("an earlier call"));
}

// Such calls consist of the same collectives within the host.
TEST_F(HostsMultirankTest, TheRanksOfAHostCompareReductionsAndRoots) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs a host with two ranks";
  const at::Tensor x = at::ones({4});
  const auto error_in_new_group = [&](const auto& act) {
    const Group group = make("shm");
    return error_of([&] { act(CollectiveOptions{.group = group}); });
  };
  EXPECT_THAT(error_in_new_group([&](const CollectiveOptions& options) {
                all_reduce(x, get_rank() == 2 ? ReduceOp::AVG : ReduceOp::SUM, options);
              }),
              AllOf(HasSubstr("with AVG"), HasSubstr("with SUM")));
  EXPECT_THAT(error_in_new_group([&](const CollectiveOptions& options) {
                reduce(x, get_rank() == 2 ? 1 : 0, ReduceOp::SUM, options);
              }),
              AllOf(HasSubstr("root 1"), HasSubstr("root 0")));
  EXPECT_THAT(error_in_new_group([&](const CollectiveOptions& options) {
                broadcast(x, get_rank() == 2 ? 1 : 0, options);
              }),
              AllOf(HasSubstr("root 1"), HasSubstr("root 0")));
}

// Hosts of neighbours, so that the leaders are not ranks 0 and 1. Rank 1 is not its host's leader.
TEST_F(HostsMultirankTest, ARankThatLeavesIsNamedOnEveryHost) {
  if (get_world_size() < 3) GTEST_SKIP() << "needs a host with two ranks";
  be_on(get_rank() / 2);
  const Group group = make("shm");
  if (get_rank() == 1) {
    abort_process_group(group);
  } else {
    EXPECT_THAT(error_of([&] { barrier({.group = group}); }),
                HasSubstr("rank 1 has left the group"));
  }
  rendezvous_at("left");
}

// Rank 0 waits in Gloo for the other host.
TEST_F(HostsMultirankTest, AbortEndsACallThatWaitsForAnotherHost) {
  const Group group = make("shm");
  if (get_rank() == 0) {
    // Not through the group, which gives every error after its abort the same text.
    const auto backend = group.process_group()->getBackend(c10::DeviceType::CPU);
    std::vector<at::Tensor> tensors = {at::ones({3})};
    const auto work = backend->allreduce(tensors, {});
    EXPECT_FALSE(work->isCompleted());  // Another thread runs it.
    backend->abort();
    EXPECT_EQ(error_of([&] { work->wait(); }), "the group has been aborted");
  }
  rendezvous_at("aborted");
}

// Groups whose keys in the store are the same. A rank that is ahead must not find the card that
// another had in the group before.
TEST_F(HostsMultirankTest, AStoreServesOneGroupAfterAnother) {
  be_on(get_rank() / 2);
  for (const std::string name : {"shm", "auto"}) {
    BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>(
                               "again " + name, default_group().getStore())};
    request.rank = get_rank();
    request.size = get_world_size();
    request.timeout = std::chrono::seconds(30);
    for (int rank = 0; rank < request.size; ++rank) request.ranks.push_back(rank);
    std::vector<c10::intrusive_ptr<c10d::Backend>> backends;
    for (int time = 0; time < 20; ++time) backends.push_back(make_backend(name, request));
    for (const auto& backend : backends) {
      std::vector<at::Tensor> tensors = {at::ones({2})};
      backend->allreduce(tensors, {})->wait();
      EXPECT_TRUE(tensors[0].eq(get_world_size()).all().item<bool>());
    }
    backends.back()->barrier({})->wait();  // No rank needs the others any more.
  }
}

// Rank 1 is alone on its host, or its leader.
TEST_F(HostsMultirankTest, ARankThatDoesNotComeIsNamedOnEveryHost) {
  const Group group =
      new_group(std::nullopt, {.timeout = std::chrono::milliseconds(500), .backend = "shm"});
  if (get_rank() == 1) {
    rendezvous_at("failed");
    return;
  }
  const std::string error = error_of([&] { barrier({.group = group}); });
  const bool is_with_1 = get_rank() % 2 == 1;
  EXPECT_THAT(error, HasSubstr(is_with_1 ? "rank 1 did not come" : "imed out")) << get_rank();
  rendezvous_at("failed");
}

TEST_F(HostsMultirankTest, MessagesPassWithinAndBetweenHosts) {
  const Group group = make("shm");
  const int ranks = get_world_size();
  for (int distance = 1; distance < ranks; ++distance) {
    const at::Tensor sent = at::full({1000}, get_rank(), at::kFloat), received = at::zeros({1000});
    const Work work = isend(sent, (get_rank() + distance) % ranks, {.group = group});
    const int from = (get_rank() + ranks - distance) % ranks;
    recv(received, from, {.group = group});
    work.wait();
    EXPECT_TRUE(received.eq(from).all().item<bool>());
  }
}

TEST_F(HostsMultirankTest, AGroupOfOneHostUsesNoOther) {
  const Group whole = make("shm");
  std::vector<int> even;
  for (int rank = 0; rank < get_world_size(); rank += 2) even.push_back(rank);
  const Group part = new_group(even, {.backend = "shm"});
  if (!part.is_member()) return;
  const at::Tensor x = at::ones({3});
  all_reduce(x, ReduceOp::SUM, {.group = part});
  EXPECT_TRUE(x.eq(static_cast<double>(even.size())).all().item<bool>());
}

TEST_F(HostsMultirankTest, AutoIsShmUnlessEachRankHasAHostOfItsOwn) {
  const Group some_share = make("auto");
  EXPECT_EQ(backend_of(some_share), get_world_size() > 2 ? "shm" : "gloo");
  be_on(get_rank());
  const Group none_share = make("auto");
  EXPECT_EQ(backend_of(none_share), "gloo");
  be_on(0);
  const Group all_share = make("auto");
  EXPECT_EQ(backend_of(all_share), "shm");
  for (const Group& group : {some_share, none_share, all_share}) {
    const at::Tensor x = at::ones({3});
    all_reduce(x, ReduceOp::SUM, {.group = group});
    EXPECT_TRUE(x.eq(get_world_size()).all().item<bool>());
  }
}

}  // namespace
}  // namespace distrun::hosts
