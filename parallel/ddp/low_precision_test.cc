#include "parallel/ddp/low_precision.h"

#include <memory>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

namespace distrun::internal {
namespace {

using ::testing::HasSubstr;

constexpr at::ScalarType kLow = at::kBFloat16;
constexpr float kValue = 1.001F;  // kLow rounds it to 1.

class LowPrecisionTest : public ::testing::Test {
 protected:
  // A forward multiplies an input of ones by the weight.
  struct Forward {
    at::Tensor input, output;
    void backward() const { output.sum().backward(); }
    float weight_in_backward() const { return input.grad()[0][0].item<float>() / 2; }
  };

  std::shared_ptr<LowPrecision> object(at::ScalarType dtype) const {
    return std::make_shared<LowPrecision>(std::vector<at::Tensor>{weight}, dtype);
  }
  Forward forward(LowPrecision& its) {
    const at::Tensor input = at::ones({2, 2}).requires_grad_();
    its.begin_forward();
    in_forward = weight.detach();
    // Saves the weight itself, and its backward throws if dtypes differ.
    const at::Tensor output = at::mm(input.to(its.dtype()), weight);
    return {input, its.end_forward({output})[0]};
  }
  Forward forward() { return forward(*low); }
  bool copy_is_alive() {
    const auto memory = in_forward.storage().getWeakStorageImpl();
    in_forward.reset();
    return !memory.expired();
  }

  void set_values(float value) const { weight.data().fill_(value); }  // Like torch::optim::SGD.
  void expect_values(float value) const {
    ASSERT_EQ(weight.scalar_type(), at::kFloat);
    EXPECT_TRUE(weight.equal(at::full({2, 2}, value))) << weight;
  }
  template <class Act>
  static std::string error_of(const Act& act) {
    try {
      act();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  }

  at::Tensor weight = at::full({2, 2}, kValue).requires_grad_();
  // c10d's Reducer keeps it.
  decltype(torch::autograd::impl::grad_accumulator(weight)) accumulator =
      torch::autograd::impl::grad_accumulator(weight);
  at::Tensor in_forward;  // The weight's values in the last forward.
  std::shared_ptr<LowPrecision> low = object(kLow);
};

TEST_F(LowPrecisionTest, OnlyForwardAndBackwardUseTheCopy) {
  const Forward one = forward();
  EXPECT_EQ(in_forward.scalar_type(), kLow);
  expect_values(kValue);
  const void* in_backward = nullptr;
  weight.register_hook([&](const at::Tensor&) { in_backward = weight.const_data_ptr(); });
  one.backward();
  EXPECT_EQ(in_backward, in_forward.const_data_ptr());
  expect_values(kValue);
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(one.weight_in_backward(), 1);
}

TEST_F(LowPrecisionTest, ABackwardUsesTheValuesOfItsForward) {
  const Forward first = forward();
  set_values(2);
  const Forward second = forward();
  set_values(3);
  (first.output + second.output).sum().backward();
  EXPECT_EQ(first.weight_in_backward(), 1);
  EXPECT_EQ(second.weight_in_backward(), 2);
  expect_values(3);
}

TEST_F(LowPrecisionTest, AutogradDetectsAChangeInPlace) {
  const Forward one = forward();
  {
    const at::NoGradGuard no_grad;
    weight.add_(1);
  }
  EXPECT_THAT(error_of([&] { one.backward(); }), HasSubstr("modified by an inplace operation"));
  expect_values(kValue + 1);
}

TEST_F(LowPrecisionTest, ABackwardThatThrowsPutsTheValuesBack) {
  const Forward one = forward();
  const auto hook = weight.register_hook([](const at::Tensor& gradient) -> at::Tensor {
    TORCH_CHECK_VALUE(false, "a hook's error");
    return gradient;
  });
  EXPECT_THAT(error_of([&] { one.backward(); }), HasSubstr("a hook's error"));
  expect_values(kValue);
  weight.remove_hook(hook);
  set_values(2);
  const Forward next = forward();
  next.backward();
  EXPECT_EQ(next.weight_in_backward(), 2);
  expect_values(2);
}

TEST_F(LowPrecisionTest, AForwardThatThrowsPutsTheValuesBack) {
  low->begin_forward();
  low->abandon_forward();
  expect_values(kValue);
}

TEST_F(LowPrecisionTest, OutputsThatNeedNoBackwardKeepNoCopy) {
  const at::NoGradGuard no_grad;
  const Forward one = forward();
  expect_values(kValue);
  EXPECT_FALSE(copy_is_alive());
}

TEST_F(LowPrecisionTest, ABackwardFreesTheCopy) {
  const Forward one = forward();
  one.backward();
  EXPECT_FALSE(copy_is_alive());
}

TEST_F(LowPrecisionTest, TheEndOfTheOutputsFreesTheCopy) {
  forward();
  EXPECT_FALSE(copy_is_alive());
}

TEST_F(LowPrecisionTest, AGraphCanHaveSeveralBackwards) {
  const Forward one = forward();
  one.output.sum().backward({}, /*retain_graph=*/true);
  expect_values(kValue);
  one.backward();
  expect_values(kValue);
  EXPECT_EQ(one.weight_in_backward(), 2);  // The sum of both gradients.
}

TEST_F(LowPrecisionTest, ALossCanAlsoUseTheValues) {
  const Forward one = forward();
  (one.output.sum() + at::mm(weight, weight).sum()).backward();
  EXPECT_TRUE(weight.grad().allclose(at::full({2, 2}, 2 + 4 * kValue), 1e-6, 0));
  expect_values(kValue);
}

TEST_F(LowPrecisionTest, ABackwardCanRunAForward) {
  const Forward one = forward();
  one.output.register_hook([&](const at::Tensor&) { forward(); });
  one.backward();
  EXPECT_EQ(one.weight_in_backward(), 1);
  expect_values(kValue);
}

TEST_F(LowPrecisionTest, ABackwardCanRunAForwardAndItsBackward) {
  const Forward one = forward();
  one.output.register_hook([&](const at::Tensor&) {
    const at::AutoGradMode grad(true);
    forward().backward();
  });
  one.backward();
  EXPECT_EQ(one.weight_in_backward(), 1);
  EXPECT_TRUE(weight.grad().equal(at::full({2, 2}, 4.0)));
  expect_values(kValue);
}

TEST_F(LowPrecisionTest, TheOutputsCanOutliveTheOwner) {
  const Forward one = forward();
  low.reset();
  one.backward();
  EXPECT_EQ(one.weight_in_backward(), 1);
  expect_values(kValue);
}

TEST_F(LowPrecisionTest, TwoObjectsCanHaveTheSameParameter) {
  const auto other = object(kLow);
  for (const bool other_first : {false, true}) {
    SCOPED_TRACE(other_first);
    const Forward one = forward(*(other_first ? other : low));
    const Forward two = forward(*(other_first ? low : other));
    (one.output + two.output).sum().backward();
    EXPECT_EQ(one.weight_in_backward(), 1);
    EXPECT_EQ(two.weight_in_backward(), 1);
    expect_values(kValue);
  }
}

TEST_F(LowPrecisionTest, AForwardCanBeWithinThatOfAnotherObject) {
  const auto outer = object(kLow);
  outer->begin_forward();
  const Forward one = forward();
  EXPECT_EQ(weight.scalar_type(), kLow);
  const at::Tensor output = outer->end_forward({one.output})[0];
  expect_values(kValue);
  output.sum().backward();
  EXPECT_EQ(one.weight_in_backward(), 1);
  expect_values(kValue);
}

TEST_F(LowPrecisionTest, OneBackwardCannotHaveTwoLowPrecisions) {
  const auto other = object(at::kHalf);
  const Forward one = forward(), two = forward(*other);
  EXPECT_EQ(error_of([&] { (one.output.to(at::kFloat) + two.output).sum().backward(); }),
            "DistributedDataParallel: a parameter with mixed_precision is Half; expected Float, as "
            "at construction; if another DistributedDataParallel gives it another param_dtype, run "
            "a backward() for each");
  expect_values(kValue);
  const Forward three = forward(), four = forward(*other);
  three.backward();
  four.backward();
  expect_values(kValue);
}

}  // namespace
}  // namespace distrun::internal
