#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "parallel/trace/test/trace_fixture.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

// Without autograd, the dispatcher does not decompose composite operators.
TEST(TraceTest, DecomposesCompositeOperatorsWithoutAutograd) {
  const Function function = [](const Tensors& x) -> Tensors {
    const c10::InferenceMode mode;
    const at::Tensor made = at::tensor({1.F, 2.F, 4.F});
    return {x[0] + made.to(at::kDouble), (x[0] * 2).t().reshape({6}) + 1};
  };
  const Trace its = expect_replays(function, {numbers()}, {numbers(5)});
  EXPECT_THAT(its.str(), HasSubstr("aten._to_copy"));
  EXPECT_THAT(its.str(), ::testing::Not(HasSubstr("aten.reshape")));
}

// The tensors that autograd saves are not results of operators.
TEST(TraceTest, RecordsAndReplaysABackward) {
  const at::Tensor weight = numbers(1).view({3, 2}).mul(0.25).requires_grad_();
  const Function function = [&](const Tensors& x) -> Tensors {
    const at::Tensor scale = weight.detach().clone().requires_grad_();
    at::Tensor hidden = at::linear(x[0], scale.t()).tanh();
    hidden = at::layer_norm(hidden, {2}) * x[0].slice(1, 0, 2);
    hidden.mul_(hidden.detach() + 1);
    const at::Tensor loss = at::mse_loss(hidden.softmax(1), x[0].slice(1, 0, 2));
    loss.backward();
    return {loss.detach(), scale.grad()};
  };
  const Trace its = expect_replays(function, {numbers()}, {numbers(2).sin()});
  EXPECT_THAT(its.str(), HasSubstr("native_layer_norm_backward"));
  EXPECT_THAT(its.str(), HasSubstr("tanh_backward"));
}

TEST(TraceTest, UsesTheReplaysOwnMaskInABackward) {
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::Tensor y = x[0].detach().requires_grad_();
        const at::Tensor dropped = at::dropout(y, 0.5, true);
        dropped.sum().backward();
        return {dropped.detach(), y.grad()};
      },
      {at::ones({100})});
  const Tensors results = its.replay({at::ones({100})});
  expect_equal({results[0]}, {results[1]});
}

TEST(TraceTest, AccumulatesGradientsInOutsideLeaves) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        (x[0] * weight).sum().backward();
        return {};
      },
      {numbers()});
  EXPECT_TRUE(weight.grad().equal(numbers().sum(0)));
  EXPECT_TRUE(its.replay({numbers(1)}).empty());
  // grad() was undefined before the function's backward(), so a replay does not set it.
  EXPECT_TRUE(weight.grad().equal(numbers().sum(0)));
  const Trace next = trace(
      [&](const Tensors& x) -> Tensors {
        (x[0] * weight).sum().backward();
        return {};
      },
      {numbers()});
  next.replay({numbers(1)});
  EXPECT_TRUE(weight.grad().equal(numbers().sum(0) * 2 + numbers(1).sum(0)));
}

TEST(TraceTest, ReplayReturnsTensorsWithoutGradient) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Trace its =
      trace([&](const Tensors& x) -> Tensors { return {x[0] * weight}; }, {numbers()});
  EXPECT_FALSE(its.replay({numbers()})[0].requires_grad());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(TraceTest, ReplaysConjugates) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor conjugate = x[0].conj();
        return {conjugate * x[0], conjugate.resolve_conj(), at::real(x[0] * 2).neg()};
      },
      {numbers().to(at::kComplexFloat) * c10::complex<float>(1, 2)},
      {numbers(4).to(at::kComplexFloat) * c10::complex<float>(3, -1)});
}

TEST(TraceTest, RecordsCastsAndIgnoresTheCallersAutocast) {
  const Function function = [](const Tensors& x) -> Tensors { return {x[0].mm(x[1])}; };
  const Tensors inputs = {numbers(), numbers().t().contiguous()};
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const Trace cast = trace(function, inputs);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  const Trace plain = trace(function, inputs);
  EXPECT_THAT(cast.str(), HasSubstr("_to_copy"));
  EXPECT_EQ(cast.replay(inputs)[0].scalar_type(), at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(plain.replay(inputs)[0].scalar_type(), at::kFloat);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

TEST(TraceTest, RecordsCastsThatAutocastHasCached) {
  const at::Tensor weight = at::ones({3, 3}).requires_grad_();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::increment_nesting();
  static_cast<void>(numbers().mm(weight));
  const Trace its =
      trace([&](const Tensors& x) -> Tensors { return {x[0].mm(weight)}; }, {numbers()});
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  at::autocast::clear_cache();
  at::autocast::decrement_nesting();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  {
    const at::NoGradGuard no_grad;
    weight.mul_(2);
  }
  expect_equal({its.replay({numbers()})[0].to(at::kFloat)}, {numbers().mm(weight)});
}

}  // namespace
}  // namespace distrun
