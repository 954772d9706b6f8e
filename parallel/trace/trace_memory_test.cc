// Functions whose tensors share memory, change in place, or come from outside.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>

#include "parallel/trace/test/trace_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

TEST(TraceTest, ReplaysInPlaceChangesAndViews) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor all = x[0].clone(), row = all.select(0, 1), flat = all.view({-1});
        row.mul_(10);
        flat.slice(0, 0, 2).add_(x[1]);
        all.t_();
        return {all, row, flat, all.contiguous()};
      },
      {numbers(), at::ones({2})}, {numbers(3), at::zeros({2})});
}

TEST(TraceTest, ReplaysChangesOfInputs) {
  const Function function = [](const Tensors& x) -> Tensors {
    x[0].add_(1);
    x[0].select(0, 0).zero_();
    return {x[0], x[1]};
  };
  const Trace its = expect_replays(function, {numbers(), numbers()}, {numbers(3), numbers(4)});
  const Tensors given = {numbers(7), numbers(8)};
  EXPECT_TRUE(its.replay(given)[0].is_same(given[0]));
  EXPECT_TRUE(given[1].equal(numbers(8)));
}

TEST(TraceTest, WritesToGivenOutputs) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor out = at::empty({2, 3}), values = at::empty({2}),
                   indices = at::empty({2}, at::kLong);
        at::add_out(out, x[0], x[0]);
        at::max_out(values, indices, x[0], 1);
        return {out, values, indices};
      },
      {numbers()}, {-numbers()});
}

TEST(TraceTest, RecordsListsThatAreChangedInPlace) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const Tensors list = {x[0] * 1, x[1] * 1};
        at::_foreach_add_(list, 5);
        return {list[0], list[1]};
      },
      {numbers(), numbers(1)}, {numbers(2), numbers(3)});
  EXPECT_THAT(its.str(), HasSubstr("aten._foreach_add_.Scalar](args = ([%mul, %mul_1], 5)"));
}

// No operator has derived these tensors from each other.
TEST(TraceTest, SeesWritesThroughAnotherTensorOfTheSameMemory) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor product = x[0] * 2, other = product.variable_data(),
                         third = product.variable_data();
        other.add_(1);
        return {product * 3, third};
      },
      {numbers()}, {numbers(2)});
  EXPECT_THAT(its.str(), HasSubstr("aten.mul.Scalar](args = (%add_, 3)"));
  EXPECT_THAT(its.str(), HasSubstr("return (mul_1, add_)"));
}

// A replay has one tensor for the same elements, but each keeps its own layout.
TEST(TraceTest, KeepsLayoutsOfTensorsWithTheSameElementsApart) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor other = x[0].variable_data();
        other.unsqueeze_(0);
        other.add_(1);
        return {x[0].sum(0), other * 1};
      },
      {numbers()}, {numbers(1)});
  expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor product = x[0] * 1, other = product.variable_data();
        other.add_(1);
        product.mul_(2);
        other.t_();
        product.unsqueeze_(0);
        return {product + 0, other + 0};
      },
      {numbers()}, {numbers(1)});
}

TEST(TraceTest, FollowsSetData) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor product = x[0] * 1;
        product.set_data(product.t());
        return {product + 0};
      },
      {numbers()}, {numbers(5)});
}

TEST(TraceTest, RejectsStorages) {
  EXPECT_EQ(error_of([&] {
              trace(
                  [](const Tensors& x) -> Tensors {
                    const at::Tensor flat = at::empty({0});
                    flat.set_(x[0].storage(), 0, {6}, {1});
                    return {flat + 1};
                  },
                  {numbers()});
            }),
            "trace: an operator takes a storage, which is not supported; use tensors, for example "
            "with set_()");
}

TEST(TraceTest, CopiesBorrowedMemory) {
  std::vector<float> numbers_of_mine(6, 1);
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        return {x[0] + at::from_blob(numbers_of_mine.data(), {2, 3})};
      },
      {numbers()});
  std::fill(numbers_of_mine.begin(), numbers_of_mine.end(), 1000.F);
  expect_equal(its.replay({numbers()}), {numbers(1)});
}

TEST(TraceTest, AcceptsPartsOfOneMemoryAsInputs) {
  const auto parts = [](double first) -> Tensors {
    const at::Tensor all = at::arange(6, at::kFloat) + first;
    return {all.slice(0, 0, 3), all.slice(0, 3, 6)};
  };
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] * 2 + x[1]}; }, parts(0));
  expect_equal(its.replay(parts(4)), {parts(4)[0] * 2 + parts(4)[1]});
}

TEST(TraceTest, RejectsAViewThatNoOperatorHasMade) {
  EXPECT_EQ(error_of([&] {
              trace(
                  [](const Tensors& x) -> Tensors {
                    const at::Tensor view = x[0].variable_data();
                    view.unsafeGetTensorImpl()->set_sizes_contiguous(at::IntArrayRef{6});
                    return {view + 1};
                  },
                  {numbers()});
            }),
            "trace: a tensor of sizes [6] and strides [1] shares memory with a value of the trace, "
            "but no operator created it from that value; use a view operator such as view()");
}

TEST(TraceTest, RecognizesSparseTensors) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor sparse = x[0].to_sparse();
        return {(sparse * 2).to_dense() + at::mm(sparse, x[0].t())};
      },
      {at::ones({2, 2})}, {at::arange(4, at::kFloat).view({2, 2})});
  EXPECT_THAT(its.str(), ::testing::Not(HasSubstr("get_attr")));
}

TEST(TraceTest, KeepsOutsideTensors) {
  at::Tensor weight = at::ones({3, 3});
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors { return {x[0].mm(weight) + weight.sum()}; }, {numbers()});
  EXPECT_THAT(its.str(), HasSubstr("%_tensor_constant0 : [num_users=2] = get_attr"));
  EXPECT_TRUE(its.graph().find("_tensor_constant0")->constant.is_same(weight));
  weight.mul_(2);  // The replay sees this.
  const Tensors expected = {numbers(1).mm(weight) + weight.sum()};
  weight = at::Tensor();
  expect_equal(its.replay({numbers(1)}), expected);
}

TEST(TraceTest, RepeatsChangesOfOutsideTensors) {
  const at::Tensor counter = at::zeros({});
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        counter.add_(1);
        return {x[0] + counter};
      },
      {numbers()});
  EXPECT_EQ(counter.item<float>(), 1);
  expect_equal(its.replay({numbers()}), {numbers(2)});
  EXPECT_EQ(counter.item<float>(), 2);
}

TEST(TraceTest, RecordsNoConstantForMemoryThatOperatorsWrite) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor room = at::empty({4, 3});
        room.slice(0, 0, 2).copy_(x[0]);
        room.slice(0, 2, 4).copy_(x[0] * 2);
        return {room};
      },
      {numbers()}, {numbers(4)});
  EXPECT_THAT(its.str(), ::testing::Not(HasSubstr("get_attr")));
}

// Records the most bytes allocated at once.
class Memory : public c10::MemoryReportingInfoBase {
 public:
  std::int64_t most() const { return most_; }
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    now_ += size;
    most_ = std::max(most_, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

 private:
  std::int64_t now_ = 0, most_ = 0;
};

TEST(TraceTest, FreesIntermediateValuesDuringAReplay) {
  const Function function = [](const Tensors& x) -> Tensors {
    at::Tensor value = x[0];
    for (int i = 0; i < 2000; ++i) value = value + 1;
    return {value};
  };
  const Trace its = expect_replays(function, {numbers()}, {numbers(1)});
  EXPECT_EQ(its.graph().nodes().size(), 2002U);
  const auto memory = std::make_shared<Memory>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
  its.replay({numbers()});
  EXPECT_GT(memory->most(), 0);
  EXPECT_LT(memory->most(), 1000);  // Each value has 24 bytes.
}

// A new tensor at the address of a freed one must not be mistaken for it.
TEST(TraceTest, ForgetsFreedTensors) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor sum = x[0];
        for (int i = 0; i < 100; ++i) {
          sum = sum + (x[0] * i).view({3, 2}).view({2, 3});
          // The recorder does not see this tensor, which may reuse the product's memory.
          const at::Tensor unseen = [&] {
            const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::Fake);
            return at::full({2, 3}, i, at::kFloat);
          }();
          sum = sum + unseen;
        }
        return {sum};
      },
      {numbers()}, {numbers(2)});
}

}  // namespace
}  // namespace distrun
