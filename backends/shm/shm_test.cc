// The backend shm of a group with one rank, called as c10d calls it, and ranks that do not meet.
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/group/libtorch_versions.h"
#include "backends/shm/ended_tensors.h"
#include "backends/shm/shm_work.h"
#include "distrun/backend_registry.h"

namespace distrun::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Tensors = std::vector<at::Tensor>;
using c10d::ReduceOp;

c10::intrusive_ptr<c10d::HashStore> new_store() { return c10::make_intrusive<c10d::HashStore>(); }

BackendRequest request_for(int size, c10::intrusive_ptr<c10d::Store> store) {
  BackendRequest request{.store = std::move(store),
                         .rank = 0,
                         .size = size,
                         .timeout = std::chrono::milliseconds(100)};
  for (int rank = 0; rank < size; ++rank) request.ranks.push_back(rank + 10);
  return request;
}

template <class Error, class Act>
std::string text_of_error(const Act& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

class ShmTest : public ::testing::Test {
 protected:
  template <class Act>
  static std::string value_error(const Act& act) {
    return text_of_error<c10::ValueError>(act);
  }

  c10::intrusive_ptr<c10d::Backend> backend_ = make_backend("shm", request_for(1, new_store()));
  at::Tensor x_ = at::ones({2});
};

TEST_F(ShmTest, ARankAloneReducesItsOwnTensor) {
  Tensors tensors = {at::arange(3)};
  backend_->allreduce(tensors, {})->wait();
  EXPECT_TRUE(tensors[0].equal(at::arange(3)));
}

TEST_F(ShmTest, LeavesNoKeysForALaterGroup) {
  const auto store = new_store();
  make_backend("shm", request_for(1, store));
  EXPECT_EQ(store->getNumKeys(), 0);
}

// Rank 1 is slow to delete its key.
class SlowToDelete : public c10d::HashStore {
 public:
  bool deleteKey(const std::string& key) override {
    if (key == "1") has_returned_.get_future().wait_for(std::chrono::milliseconds(200));
    return HashStore::deleteKey(key);
  }
  void rank_0_returns() { has_returned_.set_value(); }

 private:
  std::promise<void> has_returned_;
};

// Otherwise, the next group of rank 0 could meet the last one of rank 1.
TEST_F(ShmTest, NoRankReturnsBeforeAllHaveLeftTheStore) {
  const auto store = c10::make_intrusive<SlowToDelete>();
  BackendRequest request = request_for(2, store);
  request.timeout = std::chrono::seconds(30);
  BackendRequest other = request;
  other.rank = 1;
  const auto rank_1 = std::async(std::launch::async, [&] { return make_backend("shm", other); });
  const auto mine = make_backend("shm", request);
  EXPECT_EQ(store->getNumKeys(), 0);
  store->rank_0_returns();
  rank_1.wait();
}

TEST_F(ShmTest, ATensorMayHaveAnyStrides) {
  Tensors tensors = {at::arange(6, at::kFloat).view({2, 3}).t()};
  c10d::AllreduceOptions options;
  options.reduceOp = ReduceOp::AVG;
  backend_->allreduce(tensors, options)->wait();
  EXPECT_TRUE(tensors[0].equal(at::arange(6, at::kFloat).view({2, 3}).t()));
}

TEST_F(ShmTest, AWorkHasAFutureWithItsTensors) {
  Tensors tensors = {x_};
  const auto work = backend_->allreduce(tensors, {});
  const auto future = work->getFuture();
  future->wait();
  EXPECT_TRUE(work->isCompleted());
  EXPECT_TRUE(future->value().toTensorVector().at(0).is_same(x_));
  EXPECT_TRUE(work->result().at(0).is_same(x_));
}

TEST_F(ShmTest, RejectsRootsAndNumbersOfTensors) {
  Tensors one = {x_}, two = {x_, x_};
  EXPECT_EQ(value_error([&] { backend_->broadcast(one, {.rootRank = 3}); }),
            "broadcast: the root is 3; expected 0 to 0");
  EXPECT_EQ(value_error([&] { backend_->allreduce(two, {}); }),
            "all_reduce: there are 2 tensors; expected 1");
}

TEST_F(ShmTest, RejectsTensorsThatItCannotRead) {
  Tensors undefined = {at::Tensor()}, meta = {x_.to(at::kMeta)},
          rows = {at::eye(2).to_sparse_csr()};
  EXPECT_EQ(value_error([&] { backend_->broadcast(undefined, {}); }),
            "broadcast: a tensor is undefined");
  EXPECT_EQ(value_error([&] { backend_->broadcast(meta, {}); }),
            "broadcast: a tensor is on meta; shm supports only the CPU");
  EXPECT_EQ(value_error([&] { backend_->allreduce(rows, {}); }),
            "all_reduce: a tensor has layout SparseCsr; shm supports only dense tensors");
}

TEST_F(ShmTest, RejectsOutputsWhoseElementsShareMemory) {
  Tensors expanded = {at::ones({1}).expand({3})};
  const std::string problem =
      ": elements of a tensor share memory; expected a tensor that can be written, such as a "
      "clone()";
  EXPECT_EQ(value_error([&] { backend_->allreduce(expanded, {}); }), "all_reduce" + problem);
  EXPECT_EQ(value_error([&] { backend_->recvAnysource(expanded, 0); }), "recv" + problem);
}

TEST_F(ShmTest, RejectsTensorsOfOtherSizes) {
  Tensors in = {x_};
  std::vector<Tensors> out = {{at::ones({1})}};
  EXPECT_EQ(value_error([&] { backend_->allgather(out, in, {}); }),
            "all_gather: a tensor has 4 bytes, and another has 8; expected the same");
  EXPECT_EQ(
      value_error(
          [&] { backend_->DISTRUN_ALL_GATHER_SINGLE(out[0][0], x_, c10d::AllgatherOptions()); }),
      "all_gather_into_tensor: the larger tensor has 4 bytes; expected 8, which is 1 times the "
      "smaller one");
}

TEST_F(ShmTest, RejectsNegativeSplitSizes) {
  std::vector<std::int64_t> negative = {-1}, none;
  EXPECT_EQ(value_error([&] {
              backend_->DISTRUN_ALL_TO_ALL_SINGLE(x_, x_, none, negative, c10d::AllToAllOptions());
            }),
            "all_to_all_single: the split sizes are -1; expected at least 0");
}

TEST_F(ShmTest, RejectsReductionsThatAreNotDefined) {
  Tensors one = {x_}, sparse = {x_.to_sparse()};
  EXPECT_EQ(value_error([&] { backend_->allreduce(one, {.reduceOp = ReduceOp::BAND}); }),
            "all_reduce: shm has no such reduction of Float");
  EXPECT_EQ(value_error([&] { backend_->allreduce(sparse, {.reduceOp = ReduceOp::MAX}); }),
            "all_reduce: shm has no such reduction of sparse tensors; expected SUM");
}

TEST_F(ShmTest, RejectsMessagesToItselfAndNegativeTags) {
  Tensors one = {x_};
  EXPECT_EQ(value_error([&] { backend_->send(one, 0, 0); }),
            "send: the other rank is 0; expected 0 to 0, and not this one");
  EXPECT_EQ(value_error([&] { backend_->recv(one, 0, -1); }),
            "recv: the tag is -1; expected at least 0");
}

TEST(ShmMeetingTest, ARankThatDoesNotComeIsNamed) {
  EXPECT_EQ(text_of_error<c10::DistBackendError>(
                [] { make_backend("shm", request_for(2, new_store())); }),
            "shm: rank 11 did not come within 100ms");
}

TEST(ShmMeetingTest, RanksOnOtherHostsAreNamed) {
  const auto store = new_store();
  const std::string card = "distrun-shm-1 another/host socket secret";
  store->set("1", std::vector<std::uint8_t>(card.begin(), card.end()));
  EXPECT_EQ(
      text_of_error<c10::DistBackendError>([&] { make_backend("shm", request_for(2, store)); }),
      "shm: rank 11 and rank 10 are on different hosts or in different network namespaces, and a "
      "rank cannot span hosts: its PyTorch has no Gloo, or Python splits a group");
}

TEST(CallQueueTest, RunsNothingBeforeWhatWasAdded) {
  const auto queue = std::make_shared<CallQueue>();
  int calls = 0;
  const auto work = c10::make_intrusive<QueuedWork>(ShmWork::Facts{}, ShmWork::TensorLists(), queue,
                                                    [&] { EXPECT_EQ(++calls, 1); });
  queue->add(work);
  EXPECT_FALSE(queue->run_now([&] { ++calls; }));
  queue->run_until(*work);
  EXPECT_TRUE(queue->run_now([&] { EXPECT_EQ(++calls, 2); }));
  EXPECT_THROW(queue->run_now([] { throw std::runtime_error("broken"); }), std::runtime_error);
  EXPECT_TRUE(queue->run_now([&] { EXPECT_EQ(++calls, 3); }));
  queue->close();
  EXPECT_FALSE(queue->run_now([&] { ++calls; }));
  EXPECT_EQ(calls, 3);
}

// Waits, with a limit, until the last reference to a tensor goes; returns the thread that dropped
// it.
class LastOwner {
 public:
  at::Tensor tensor() {
    const auto drop = [this](void*) { dropped_.set_value(std::this_thread::get_id()); };
    return at::from_blob(data_.data(), {2}, drop, at::kFloat);
  }
  std::thread::id thread() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    auto dropped = dropped_.get_future();
    while (dropped.wait_for(std::chrono::milliseconds(1)) == std::future_status::timeout) {
      if (std::chrono::steady_clock::now() > deadline) return {};
      EndedTensors::release();
    }
    return dropped.get();
  }

 private:
  std::array<float, 2> data_{};
  std::promise<std::thread::id> dropped_;
};

// A thread that drops a tensor of Python while Python ends would end the process.
TEST(EndedTensorsTest, TheThreadOfAQueueDropsNoTensor) {
  const auto queue = std::make_shared<CallQueue>();
  LastOwner owner;
  queue->add(c10::make_intrusive<QueuedWork>(ShmWork::Facts{},
                                             ShmWork::TensorLists{{owner.tensor()}}, queue, [] {}));
  queue->run_soon();
  EXPECT_EQ(owner.thread(), std::this_thread::get_id());
  queue->close();
}

TEST(EndedTensorsTest, TheThreadOfMessagesDropsNoTensor) {
  const auto store = new_store();
  const auto make = [&store](int rank) {
    BackendRequest request = request_for(2, store);
    request.rank = rank;
    request.timeout = std::chrono::seconds(30);
    return make_backend("shm", request);
  };
  auto other = std::async(std::launch::async, [&] { return make(1); });
  const auto receiver = make(0), sender = other.get();
  LastOwner owner;
  {
    Tensors received = {owner.tensor()};
    receiver->recv(received, 1, 0);
  }
  Tensors sent = {at::ones({2})};
  sender->send(sent, 0, 0)->wait();
  EXPECT_EQ(owner.thread(), std::this_thread::get_id());
}

// Runs `other` on another thread while a call of run_now() runs, and expects that it waits for
// that.
void expect_to_wait_for_running_call(CallQueue& queue, const std::function<void()>& other) {
  std::atomic<bool> has_ended = false;
  std::latch has_begun(1);
  std::thread waiting;
  EXPECT_TRUE(queue.run_now([&] {
    waiting = std::thread([&] {
      has_begun.count_down();
      other();
      EXPECT_TRUE(has_ended);
    });
    has_begun.wait();
    EXPECT_FALSE(queue.run_now([] {}));
    has_ended = true;
  }));
  waiting.join();
}

TEST(CallQueueTest, AWorkWaitsForACallThatRunsNow) {
  const auto queue = std::make_shared<CallQueue>();
  for (int times = 0; times < 100; ++times) {
    const auto work =
        c10::make_intrusive<QueuedWork>(ShmWork::Facts{}, ShmWork::TensorLists(), queue, [] {});
    expect_to_wait_for_running_call(*queue, [&] {
      queue->add(work);
      queue->run_until(*work);
    });
    EXPECT_TRUE(queue->run_now([] {}));
  }
  queue->close();
}

TEST(CallQueueTest, AfterCloseNothingRuns) {
  const auto queue = std::make_shared<CallQueue>();
  bool has_run = false;
  queue->add(c10::make_intrusive<QueuedWork>(ShmWork::Facts{}, ShmWork::TensorLists(), queue,
                                             [&] { has_run = true; }));
  queue->close();
  EXPECT_TRUE(has_run);
  EXPECT_FALSE(queue->run_now([] {}));
}

TEST(CallQueueTest, CloseWaitsForACallThatRunsNow) {
  for (int times = 0; times < 100; ++times) {
    const auto queue = std::make_shared<CallQueue>();
    expect_to_wait_for_running_call(*queue, [&] { queue->close(); });
    EXPECT_FALSE(queue->run_now([] {}));
  }
}

}  // namespace
}  // namespace distrun::shm
