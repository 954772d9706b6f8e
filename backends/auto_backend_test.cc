#include <future>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/shm/host/host_meeting.h"
#include "distrun/backend_registry.h"

namespace distrun {
namespace {

// Two ranks, of which this process is both.
class AutoBackendTest : public ::testing::Test {
 protected:
  BackendRequest request(int rank) const {
    BackendRequest made{.store = store_, .rank = rank, .size = 2};
    made.timeout = std::chrono::seconds(30);
    made.ranks = {0, 1};
    return made;
  }

  // Sums on both ranks. Returns the names of their backends.
  std::vector<std::string> backends_that_sum(const BackendMaker& maker_of_1) {
    const auto act = [&](int rank) {
      const auto backend = rank == 0 ? make_backend("auto", request(0)) : maker_of_1(request(1));
      std::vector<at::Tensor> tensors = {at::ones({3})};
      backend->allreduce(tensors, {})->wait();
      EXPECT_TRUE(tensors[0].eq(2).all().item<bool>());
      return backend->getBackendName();
    };
    auto other = std::async(std::launch::async, act, 1);
    const std::string mine = act(0);
    return {mine, other.get()};
  }

  const c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
};

TEST_F(AutoBackendTest, RanksOfOneHostUseShm) {
  const auto maker = [](const BackendRequest& of_1) { return make_backend("auto", of_1); };
  EXPECT_THAT(backends_that_sum(maker), ::testing::ElementsAre("shm", "shm"));
  EXPECT_EQ(store_->getNumKeys(), 0);
}

// Rank 1 says that it is on another host.
TEST_F(AutoBackendTest, RanksOfSeveralHostsUseGloo) {
  const auto maker = [](const BackendRequest& of_1) {
    std::string card = shm::HostMeeting::open(1, 2).value().card();
    const std::size_t host = card.find(' ') + 1;
    card.replace(host, card.find(' ', host) - host, "elsewhere");
    c10d::PrefixStore cards("shm", of_1.store);
    cards.set("1", std::vector<std::uint8_t>(card.begin(), card.end()));
    auto gloo = make_backend("gloo", of_1);
    for (int time = 0; time < 2; ++time) gloo->barrier({})->wait();  // As auto does.
    return gloo;
  };
  EXPECT_THAT(backends_that_sum(maker), ::testing::ElementsAre("gloo", "gloo"));
  EXPECT_FALSE(c10d::PrefixStore("shm", store_).check({"0"}));
}

}  // namespace
}  // namespace distrun
