#include "backends/group/forwarding_backend.h"

#include <functional>
#include <map>

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;
using WorkPtr = ForwardingBackend::WorkPtr;

// Records its calls, by the names that LibTorch's groups call.
class Listener : public c10d::Backend {
 public:
  explicit Listener(std::vector<std::string>& heard) : Backend(0, 1), heard_(heard) {}
  const std::string getBackendName() const override { return "listener"; }

  WorkPtr DISTRUN_ALL_GATHER_SINGLE(at::Tensor&, at::Tensor&,
                                    const c10d::AllgatherOptions&) override {
    return hear("all_gather_single");
  }
  WorkPtr DISTRUN_REDUCE_SCATTER_SINGLE(at::Tensor&, at::Tensor&,
                                        const c10d::ReduceScatterOptions&) override {
    return hear("reduce_scatter_single");
  }
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  WorkPtr gather_single(at::Tensor&, at::Tensor&, const c10d::GatherOptions&) override {
    return hear("gather_single");
  }
  bool supportsWindow() const override { return true; }
  c10::intrusive_ptr<c10d::Window> new_window(const std::optional<at::Tensor>&) override {
    hear("new_window");
    return c10::make_intrusive<c10d::Window>();
  }
  void registerAbortHook(std::int64_t id, c10d::AbortHook hook) override {
    hear("register " + std::to_string(id));
    hook();
  }
  void unregisterAbortHook(std::int64_t id) override { hear("unregister " + std::to_string(id)); }
  void addEphemeralTimeout(const std::chrono::milliseconds& timeout) override {
    hear(std::to_string(timeout.count()) + " ms");
  }
  bool supportsReconfigure() const override { return true; }
#endif
#if DISTRUN_LIBTORCH_SINCE(2, 15)
  bool supportsAbortHooks() const override { return true; }
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(std::int64_t id, c10d::CompletionHook hook) override {
    hear("register completion " + std::to_string(id));
    hook({});
  }
  void unregisterCompletionHook(std::int64_t id) override {
    hear("unregister completion " + std::to_string(id));
  }
#endif

 private:
  WorkPtr hear(const std::string& what) {
    heard_.push_back(what);
    return c10::make_intrusive<c10d::Work>();
  }

  std::vector<std::string>& heard_;
};

// Each call passes through two wrappers.
class ForwardingBackendTest : public ::testing::Test {
 protected:
  std::vector<std::string> heard_;
  const c10::intrusive_ptr<c10d::Backend> backend_ = c10::make_intrusive<ForwardingBackend>(
      c10::make_intrusive<ForwardingBackend>(c10::make_intrusive<Listener>(heard_)));
  at::Tensor tensor_ = at::ones({1});
};

TEST_F(ForwardingBackendTest, OldNamesReachTheInnerBackend) {
  backend_->_allgather_base(tensor_, tensor_, {});
  backend_->_reduce_scatter_base(tensor_, tensor_, {});
  EXPECT_THAT(heard_, ElementsAre("all_gather_single", "reduce_scatter_single"));
}

TEST_F(ForwardingBackendTest, NewNamesReachTheInnerBackend) {
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  backend_->all_gather_single(tensor_, tensor_, {});
  backend_->reduce_scatter_single(tensor_, tensor_, {});
  backend_->gather_single(tensor_, tensor_, {});
  backend_->gather_into_tensor(tensor_, tensor_, {});
  EXPECT_THAT(heard_, ElementsAre("all_gather_single", "reduce_scatter_single", "gather_single",
                                  "gather_single"));
#else
  GTEST_SKIP() << "backends have the new names since LibTorch 2.14";
#endif
}

TEST_F(ForwardingBackendTest, ForwardsWindowsAndAbortHooks) {
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  EXPECT_TRUE(backend_->supportsWindow());
  EXPECT_TRUE(backend_->new_window(tensor_));
  bool called = false;
  backend_->registerAbortHook(7, [&] { called = true; });
  EXPECT_TRUE(called);
  backend_->unregisterAbortHook(7);
  backend_->addEphemeralTimeout(std::chrono::milliseconds(5));
  EXPECT_THAT(heard_, ElementsAre("new_window", "register 7", "unregister 7", "5 ms"));
#else
  GTEST_SKIP() << "LibTorch has windows and hooks since 2.14";
#endif
}

TEST_F(ForwardingBackendTest, ForwardsCompletionHooks) {
#if DISTRUN_LIBTORCH_SINCE(2, 15)
  EXPECT_TRUE(backend_->supportsAbortHooks());
  EXPECT_TRUE(backend_->supportsCompletionHooks());
  bool called = false;
  backend_->registerCompletionHook(7, [&](const c10d::CompletionHookArgs&) { called = true; });
  EXPECT_TRUE(called);
  backend_->unregisterCompletionHook(7);
  EXPECT_THAT(heard_, ElementsAre("register completion 7", "unregister completion 7"));
#else
  GTEST_SKIP() << "LibTorch has completion hooks since 2.15";
#endif
}

// A wrapper keeps its rank and size.
TEST(ForwardingBackendErrorsTest, RejectsNull) {
  try {
    const ForwardingBackend backend(nullptr);
    ADD_FAILURE() << "no error";
  } catch (const c10::ValueError& error) {
    EXPECT_STREQ(error.what_without_backtrace(), "there is no backend to pass collectives on to");
  }
}

TEST_F(ForwardingBackendTest, CannotBeReconfigured) {
#if DISTRUN_LIBTORCH_SINCE(2, 14)
  EXPECT_FALSE(backend_->supportsReconfigure());
  EXPECT_THROW(backend_->get_reconfigure_handle(), c10::Error);
#else
  GTEST_SKIP() << "LibTorch has reconfigure() since 2.14";
#endif
}

}  // namespace
}  // namespace distrun::internal
