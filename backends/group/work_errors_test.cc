// The exact text of each error of a Work, with works that a test completes.
#include <future>
#include <string>
#include <thread>

#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "backends/fake/test/fake_world.h"
#include "distrun/backend_registry.h"
#include "distrun/work.h"

namespace distrun {
namespace {

// Has no future.  A wait ends with `result` when the test sets it.
class HeldWork : public c10d::Work {
 public:
  HeldWork() : Work(-1, c10d::OpType::ALLREDUCE) {}
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    is_waiting.set_value();
    return result.get_future().get();
  }

  std::promise<void> is_waiting;
  std::promise<bool> result;
};

// Its collectives never complete by themselves.
class HeldBackend : public c10d::Backend {
 public:
  HeldBackend() : Backend(0, 1) {}
  const std::string getBackendName() const override { return "held"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& /*tensors*/,
                                           const c10d::AllreduceOptions& /*options*/) override {
    return work;
  }

  const c10::intrusive_ptr<HeldWork> work = c10::make_intrusive<HeldWork>();
};

class WorkErrorsTest : public FakeWorldTest {
 protected:
  static void SetUpTestSuite() {
    if (is_backend_available("held")) return;  // With --gtest_repeat.
    register_backend("held",
                     [](const BackendRequest&) { return c10::make_intrusive<HeldBackend>(); },
                     {c10::kCPU});
  }
  void SetUp() override {
    init_process_group({.backend = "held",
                        .rank = 0,
                        .world_size = 1,
                        .store = c10::make_intrusive<c10d::HashStore>()});
  }

  static HeldWork& held() { return *static_cast<HeldBackend&>(backend()).work; }
  static Work begin(const at::Tensor& tensor) {
    return all_reduce(tensor, ReduceOp::SUM, {.async_op = true});
  }
  // Not contiguous, so a wait also copies.
  const at::Tensor transposed_ = at::zeros({2, 3}).t();
};

TEST_F(WorkErrorsTest, OfAnEmptyWork) {
  EXPECT_EQ(error_of([] { Work().get_future(); }), "get_future: this Work is empty");
  EXPECT_EQ(error_of([] { Work().source_rank(); }), "source_rank: this Work is empty");
}

TEST_F(WorkErrorsTest, OfASourceBeforeTheReceive) {
  const Work work = begin(transposed_);
  EXPECT_EQ(error_of([&] { work.source_rank(); }),
            "source_rank: nothing has been received yet: wait() first");
  held().result.set_value(true);
}

TEST_F(WorkErrorsTest, OfAWaitOfZero) {
  const Work work = begin(at::zeros({2}));
  EXPECT_EQ(error_of<c10::DistBackendError>([&] { work.wait(std::chrono::milliseconds(0)); }),
            "all_reduce on rank 0 of 1: Timed out after 0ms: the operation is not complete");
}

TEST_F(WorkErrorsTest, OfAWaitWhileAnotherThreadWaits) {
  const Work work = begin(transposed_);
  std::thread other([&] { work.wait(); });
  held().is_waiting.get_future().wait();
  EXPECT_EQ(error_of<c10::DistBackendError>([&] { work.wait(std::chrono::milliseconds(1)); }),
            "all_reduce on rank 0 of 1: Timed out after 1ms: another thread is waiting for this "
            "work");
  held().result.set_value(true);
  other.join();
}

TEST_F(WorkErrorsTest, OfAnAbortedOperation) {
  const Work work = begin(transposed_);
  held().result.set_value(false);
  EXPECT_EQ(error_of<c10::DistBackendError>([&] { work.wait(); }),
            "all_reduce on rank 0 of 1: the operation has been aborted");
}

}  // namespace
}  // namespace distrun
