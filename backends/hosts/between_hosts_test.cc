#include "backends/hosts/between_hosts.h"

#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/ivalue.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "backends/gloo/gloo.h"
#include "backends/shm/host/host_error.h"

namespace distrun::hosts {
namespace {

using ::testing::HasSubstr;

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

class WorkOfFuture : public c10d::Work {
 public:
  explicit WorkOfFuture(FuturePtr future) : future_(std::move(future)) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    future_->waitAndThrow();
    return true;
  }
  FuturePtr getFuture() override { return future_; }

 private:
  const FuturePtr future_;
};

// A rank whose barrier ends only when its connections are closed.
class StuckBackend : public c10d::Backend {
 public:
  StuckBackend() : Backend(0, 2) {}

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& /*options*/) override {
    has_begun.set_value();
    return c10::make_intrusive<WorkOfFuture>(future_);
  }
  void abort() override {
    if (future_->completed()) return;
    future_->setError(std::make_exception_ptr(std::runtime_error("closed")));
  }

  std::promise<void> has_begun;

 private:
  const FuturePtr future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
};

class NoWatch : public shm::Watch {
 public:
  void check(int /*rank*/) override {}
};

class BetweenHostsTest : public ::testing::Test {
 protected:
  std::string error_of_barrier(BetweenHosts& between) {
    NoWatch watch;
    try {
      between.barrier({std::chrono::steady_clock::now() + std::chrono::seconds(30), watch});
    } catch (const shm::HostError& error) {
      return error.what();
    }
    return "no error";
  }

  BetweenHosts::Parts parts_of(const c10::intrusive_ptr<c10d::Backend>& backend) const {
    return {.all = backend,
            .leaders = backend,
            .names_of_leaders = {10, 17},
            .names = {10, 11},
            .store = store_,
            .failure_key = "failure",
            .connections = {.close = [](c10d::Backend& gloo) { gloo.abort(); },
                            .lost_peer = peer_of_gloo_error}};
  }

  const c10::intrusive_ptr<c10d::HashStore> store_ = c10::make_intrusive<c10d::HashStore>();
  const c10::intrusive_ptr<StuckBackend> stuck_ = c10::make_intrusive<StuckBackend>();
};

TEST_F(BetweenHostsTest, AbortEndsACallOfGlooWithItsOwnText) {
  BetweenHosts between(parts_of(stuck_));
  auto error = std::async(std::launch::async, [&] { return error_of_barrier(between); });
  stuck_->has_begun.get_future().wait();
  between.abort();
  EXPECT_EQ(error.get(), "the group has been aborted");
  EXPECT_EQ(store_->get_to_str("failure"), "rank 10 has left the group");
}

TEST_F(BetweenHostsTest, ACallThatWaitsEndsWithTheReasonOfAnotherRank) {
  BetweenHosts between(parts_of(stuck_)), other(parts_of(c10::make_intrusive<StuckBackend>()));
  auto error = std::async(std::launch::async, [&] { return error_of_barrier(between); });
  stuck_->has_begun.get_future().wait();
  other.publish_failure("rank 11 has ended");
  EXPECT_EQ(error.get(), "rank 11 has ended");
}

TEST_F(BetweenHostsTest, OnlyTheFirstReasonIsPublished) {
  BetweenHosts between(parts_of(stuck_)), other(parts_of(c10::make_intrusive<StuckBackend>()));
  between.publish_failure("first");
  between.publish_failure("second");
  other.publish_failure("third");
  EXPECT_EQ(store_->get_to_str("failure"), "first");
}

TEST_F(BetweenHostsTest, ALostConnectionNamesTheLeader) {
  const auto gloo = [&](int rank) {
    BackendRequest request{.store = c10::make_intrusive<c10d::PrefixStore>("gloo", store_)};
    request.rank = rank;
    request.size = 2;
    request.timeout = std::chrono::seconds(30);
    request.ranks = {10, 17};
    return make_gloo_backend(request);
  };
  auto peer = std::async(std::launch::async, [&] { return gloo(1); });
  BetweenHosts between(parts_of(gloo(0)));
  peer.get()->abort();
  EXPECT_THAT(error_of_barrier(between), HasSubstr("the connection to rank 17 was lost: "));
}

class CountingWatch : public NoWatch {
 public:
  void waits() override { ++calls["waits"]; }
  void advances() override { ++calls["advances"]; }
  void published() override { ++calls["published"]; }
  void check_failed() override { ++calls["check_failed"]; }
  void check_present() override { ++calls["check_present"]; }
  void prolong(std::chrono::milliseconds /*by*/) override { ++calls["prolong"]; }

  std::map<std::string, int> calls;
};

TEST_F(BetweenHostsTest, AWatchForNewsAsksThatOfTheHost) {
  BetweenHosts between(parts_of(stuck_));
  CountingWatch of_host;
  NewsWatch watch(of_host, between);
  watch.waits();
  watch.advances();
  watch.published();
  watch.check_failed();
  watch.check_present();
  watch.prolong(std::chrono::milliseconds(1));
  const std::map<std::string, int> once = {{"waits", 1},         {"advances", 1},
                                           {"published", 1},     {"check_failed", 1},
                                           {"check_present", 1}, {"prolong", 1}};
  EXPECT_EQ(of_host.calls, once);
}

}  // namespace
}  // namespace distrun::hosts
