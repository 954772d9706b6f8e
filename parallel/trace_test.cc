// Traces in one process: what is recorded, how it reads, and what a replay makes of other inputs.
#include "parallel/trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/split.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/jit/testing/file_check.h>

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

at::Tensor numbers(double first = 0) { return at::arange(6, at::kFloat).view({2, 3}) + first; }

// The names of the nodes, one after the other.
std::string names_of(const Trace& trace) {
  std::string names;
  for (const Node& node : trace.graph().nodes()) names += (names.empty() ? "" : " ") + node.name;
  return names;
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return std::string("ValueError: ") + error.what_without_backtrace();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

void expect_equal(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(got[i].equal(expected[i])) << i << ":\n" << got[i] << "\nexpected\n" << expected[i];
  }
}

Tensors clones(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& one : tensors) all.push_back(one.detach().clone());
  return all;
}

// Replays on `other` what was recorded on `inputs`: results and inputs are as after the function.
Trace expect_replays(const Function& function, const Tensors& inputs, const Tensors& other) {
  const Trace its = trace(function, clones(inputs));
  const Tensors eager = clones(other), given = clones(other);
  const Tensors expected = function(eager);
  expect_equal(its.replay(given), expected);
  expect_equal(given, eager);
  return its;
}

TEST(TraceTest, ReadsAsTorchFxPrintsIt) {
  const at::Tensor outside = at::ones({2, 3});
  const Trace its = trace(
      [&](const Tensors& inputs) -> Tensors {
        const at::Tensor ones = at::ones({2, 2}, at::kFloat);
        const at::Tensor product = inputs[0] * 2, sum = product + inputs[1];
        const auto [values, indices] = at::max(sum, 1);
        const at::Tensor all = at::cat({sum, outside, sum.to(at::kDouble).to(at::kFloat)});
        const at::Tensor total = all.add_(1).sum().pow(2);
        const Tensors parts = at::split(all, 2);
        const at::Tensor weighted = at::add(inputs[0], inputs[1], 3);
        const at::Tensor clamped = at::clamp(inputs[0], std::nullopt, 1e20);
        const at::Tensor floor = at::div(inputs[0], inputs[1], "floor");
        return {values, all, total, parts[1], weighted, clamped, floor, inputs[0]};
      },
      {numbers(), numbers(1)});
  EXPECT_EQ(its.str(), R"(graph():
    %arg0_1 : [num_users=5] = placeholder[target=arg0_1]
    %arg1_1 : [num_users=3] = placeholder[target=arg1_1]
    %ones : [num_users=0] = call_function[target=torch.ops.aten.ones.default](args = ([2, 2],), kwargs = {dtype: torch.float32})
    %mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Scalar](args = (%arg0_1, 2), kwargs = {})
    %add : [num_users=3] = call_function[target=torch.ops.aten.add.Tensor](args = (%mul, %arg1_1), kwargs = {})
    %max_1 : [num_users=2] = call_function[target=torch.ops.aten.max.dim](args = (%add, 1), kwargs = {})
    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%max_1, 0), kwargs = {})
    %getitem_1 : [num_users=0] = call_function[target=operator.getitem](args = (%max_1, 1), kwargs = {})
    %_to_copy : [num_users=1] = call_function[target=torch.ops.aten._to_copy.default](args = (%add,), kwargs = {dtype: torch.float64})
    %_to_copy_1 : [num_users=1] = call_function[target=torch.ops.aten._to_copy.default](args = (%_to_copy,), kwargs = {dtype: torch.float32})
    %_tensor_constant0 : [num_users=1] = get_attr[target=_tensor_constant0]
    %cat : [num_users=1] = call_function[target=torch.ops.aten.cat.default](args = ([%add, %_tensor_constant0, %_to_copy_1],), kwargs = {})
    %add_ : [num_users=3] = call_function[target=torch.ops.aten.add_.Scalar](args = (%cat, 1), kwargs = {})
    %sum_1 : [num_users=1] = call_function[target=torch.ops.aten.sum.default](args = (%add_,), kwargs = {})
    %pow_1 : [num_users=1] = call_function[target=torch.ops.aten.pow.Tensor_Scalar](args = (%sum_1, 2), kwargs = {})
    %split : [num_users=3] = call_function[target=torch.ops.aten.split.Tensor](args = (%add_, 2), kwargs = {})
    %getitem_2 : [num_users=0] = call_function[target=operator.getitem](args = (%split, 0), kwargs = {})
    %getitem_3 : [num_users=1] = call_function[target=operator.getitem](args = (%split, 1), kwargs = {})
    %getitem_4 : [num_users=0] = call_function[target=operator.getitem](args = (%split, 2), kwargs = {})
    %add_1 : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%arg0_1, %arg1_1), kwargs = {alpha: 3})
    %clamp : [num_users=1] = call_function[target=torch.ops.aten.clamp.default](args = (%arg0_1, None, 1e+20), kwargs = {})
    %div : [num_users=1] = call_function[target=torch.ops.aten.div.Tensor_mode](args = (%arg0_1, %arg1_1), kwargs = {rounding_mode: floor})
    return (getitem, add_, pow_1, getitem_3, add_1, clamp, div, arg0_1))");
}

TEST(TraceTest, IsCheckedByFileCheck) {
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] * 2 + 1}; }, {numbers()});
  torch::jit::testing::FileCheck()
      .check("placeholder")
      ->check("aten.mul.Scalar")
      ->check_next("aten.add.Scalar")
      ->check("return (add,)")
      ->check_not("mul")
      ->run(its.str());
  EXPECT_ANY_THROW(torch::jit::testing::FileCheck().check("aten.div")->run(its.str()));
}

TEST(TraceTest, ReplaysOnOtherInputs) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor product = x[0].mm(x[1].t()).softmax(-1);
        return {product, product.sum() / 3, x[1]};
      },
      {numbers(), numbers(1)}, {numbers(5), numbers(-7)});
}

TEST(TraceTest, IsWalkedFromTheResultToTheInput) {
  const Trace its =
      trace([](const Tensors& x) -> Tensors { return {(x[0] * 2).exp() + 1}; }, {numbers()});
  const Node& output = its.graph().output();
  EXPECT_EQ(output.kind, Node::Kind::kOutput);
  const Node* const add = output.args.at(0).items().at(0).node();
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(add->op_name(), "aten.add");
  EXPECT_THAT(add->users, ElementsAre(&output));
  const Node* const exp = add->inputs().at(0);
  EXPECT_EQ(exp->op_name(), "aten.exp");
  const Node* const mul = exp->args.at(0).node();
  ASSERT_EQ(mul, its.graph().find("mul"));
  EXPECT_EQ(mul->op->overload_name, "Scalar");
  EXPECT_THAT(mul->users, ElementsAre(exp));
  const Node* const input = mul->inputs().at(0);
  EXPECT_EQ(input->kind, Node::Kind::kPlaceholder);
  EXPECT_EQ(input->like->sizes, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(its.graph().find("mul_1"), nullptr);
  EXPECT_EQ(input->op_name(), "");
}

TEST(TraceTest, AValueThatIsUsedTwiceByANodeHasOneUser) {
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] * x[0]}; }, {numbers()});
  EXPECT_EQ(its.graph().find("arg0_1")->users.size(), 1U);
  EXPECT_EQ(its.graph().find("mul")->inputs().size(), 2U);
}

TEST(TraceTest, NamesAreCountedForEachOperator) {
  const Trace its =
      trace([](const Tensors& x) -> Tensors { return {((x[0] * 2) * 3).add_(1).add_(2) * 4}; },
            {numbers()});
  EXPECT_EQ(names_of(its), "arg0_1 mul mul_1 add_ add__1 mul_2 output");
}

TEST(TraceTest, LiteralsReadAsPythons) {
  const Trace its = trace(
      [](const Tensors& x) -> Tensors {
        const auto options = at::TensorOptions().dtype(at::kBFloat16).device(at::kCPU);
        return {x[0] * 0.5,
                x[0] * 1e-5,
                x[0] * 3.0,
                x[0] * c10::Scalar(c10::complex<double>(1, -2)),
                x[0] * c10::Scalar(c10::complex<double>(0, 2)),
                x[0] * c10::Scalar(c10::complex<double>(0.5, 1.25)),
                at::ones({2}, options),
                x[0].to(at::kHalf, false, true, at::MemoryFormat::Contiguous),
                at::zeros({}, at::TensorOptions().layout(at::kStrided).pinned_memory(false)),
                x[0].sum({0, 1}, true, at::kDouble),
                at::clamp(x[0], -INFINITY)};
      },
      {numbers()});
  const std::string text = its.str();
  for (const char* part :
       {"(%arg0_1, 0.5)", "(%arg0_1, 1e-05)", "(%arg0_1, 3.0)", "(%arg0_1, (1-2j))",
        "(%arg0_1, 2j)", "(%arg0_1, (0.5+1.25j))", "{dtype: torch.bfloat16, device: cpu}",
        "{dtype: torch.float16, memory_format: torch.contiguous_format}",
        "args = ([],), kwargs = {layout: torch.strided, pin_memory: False}",
        "args = (%arg0_1, [0, 1], True), kwargs = {dtype: torch.float64}", "(%arg0_1, -inf)"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(TraceTest, ChangesInPlaceAndViewsShareMemoryInAReplay) {
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

TEST(TraceTest, AReplayChangesTheInputsThatTheFunctionChanges) {
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

TEST(TraceTest, OutputsThatAreGivenAreWritten) {
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

TEST(TraceTest, ListsThatAreChangedInPlaceAreNodes) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const Tensors list = {x[0] * 1, x[1] * 1};
        at::_foreach_add_(list, 5);
        return {list[0], list[1]};
      },
      {numbers(), numbers(1)}, {numbers(2), numbers(3)});
  EXPECT_THAT(its.str(), HasSubstr("aten._foreach_add_.Scalar](args = ([%mul, %mul_1], 5)"));
}

TEST(TraceTest, ListsOfTensorsMayHaveGaps) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const c10::List<std::optional<at::Tensor>> places({std::nullopt, x[1]});
        const at::Tensor all = x[0].clone();
        all.index_put_(places, x[0].index(places), /*accumulate=*/true);
        return {at::index(x[0], places), all};
      },
      {numbers(), at::arange(2)}, {numbers(3), at::arange(2) + 1});
  EXPECT_THAT(its.str(), HasSubstr("aten.index.Tensor](args = (%arg0_1, [None, %arg1_1])"));
}

TEST(TraceTest, AThreadThatGoesOnWithTheStateOfThisOneIsRecorded) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor product;
        const at::ThreadLocalState state;
        std::thread([&] {
          const at::ThreadLocalStateGuard guard(state);
          product = x[0] * 2;
        }).join();
        std::thread([&] { static_cast<void>(product - 1); }).join();
        return {product + 1};
      },
      {numbers()}, {numbers(2)});
  EXPECT_EQ(names_of(its), "arg0_1 mul add output");
}

// Tensors that no operator has made of one another.
TEST(TraceTest, WhatIsWrittenThroughAnotherTensorIsSeenByAll) {
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

// A replay has one tensor for those that share their elements, and only one of them is changed.
TEST(TraceTest, TheSizesOfAnotherTensorAreItsOwn) {
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

TEST(TraceTest, ATensorWhoseDataAreSetIsWhatItWasSetTo) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor product = x[0] * 1;
        product.set_data(product.t());
        return {product + 0};
      },
      {numbers()}, {numbers(5)});
}

TEST(TraceTest, StoragesAreRefused) {
  EXPECT_THAT(error_of([&] {
                trace(
                    [](const Tensors& x) -> Tensors {
                      const at::Tensor flat = at::empty({0});
                      flat.set_(x[0].storage(), 0, {6}, {1});
                      return {flat + 1};
                    },
                    {numbers()});
              }),
              HasSubstr("trace: an operator is given a storage"));
}

TEST(TraceTest, MemoryThatIsBorrowedIsCopied) {
  std::vector<float> numbers_of_mine(6, 1);
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        return {x[0] + at::from_blob(numbers_of_mine.data(), {2, 3})};
      },
      {numbers()});
  std::fill(numbers_of_mine.begin(), numbers_of_mine.end(), 1000.F);
  expect_equal(its.replay({numbers()}), {numbers(1)});
}

// Composite operators are called whole where autograd does not take them apart.
TEST(TraceTest, CompositeOperatorsComeApartWithoutAutograd) {
  const Function function = [](const Tensors& x) -> Tensors {
    const c10::InferenceMode mode;
    const at::Tensor made = at::tensor({1.F, 2.F, 4.F});
    return {x[0] + made.to(at::kDouble), (x[0] * 2).t().reshape({6}) + 1};
  };
  const Trace its = expect_replays(function, {numbers()}, {numbers(5)});
  EXPECT_THAT(its.str(), HasSubstr("aten._to_copy"));
  EXPECT_THAT(its.str(), ::testing::Not(HasSubstr("aten.reshape")));
}

TEST(TraceTest, AThreadThatOutlivesTheTraceIsNotRecorded) {
  std::promise<void> over;
  std::thread late;
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        const at::ThreadLocalState state;
        late = std::thread([state, y = x[0], is_over = over.get_future()] {
          const at::ThreadLocalStateGuard guard(state);
          is_over.wait();
          EXPECT_TRUE((y * 2).equal(numbers() * 2));
        });
        return {x[0] + 1};
      },
      {numbers()});
  over.set_value();
  late.join();
  EXPECT_EQ(names_of(its), "arg0_1 add output");
}

TEST(TraceTest, PartsOfOneMemoryMayBeInputs) {
  const auto parts = [](double first) -> Tensors {
    const at::Tensor all = at::arange(6, at::kFloat) + first;
    return {all.slice(0, 0, 3), all.slice(0, 3, 6)};
  };
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] * 2 + x[1]}; }, parts(0));
  expect_equal(its.replay(parts(4)), {parts(4)[0] * 2 + parts(4)[1]});
}

TEST(TraceTest, AViewThatNoOperatorHasMadeIsRefused) {
  EXPECT_THAT(error_of([&] {
                trace(
                    [](const Tensors& x) -> Tensors {
                      const at::Tensor view = x[0].variable_data();
                      view.unsafeGetTensorImpl()->set_sizes_contiguous(at::IntArrayRef{6});
                      return {view + 1};
                    },
                    {numbers()});
              }),
              HasSubstr("shares memory with a value of the trace, and no operator has made it"));
}

TEST(TraceTest, SparseTensorsAreKnownByThemselves) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor sparse = x[0].to_sparse();
        return {(sparse * 2).to_dense() + at::mm(sparse, x[0].t())};
      },
      {at::ones({2, 2})}, {at::arange(4, at::kFloat).view({2, 2})});
  EXPECT_THAT(its.str(), ::testing::Not(HasSubstr("get_attr")));
}

TEST(TraceTest, TensorsFromOutsideAreKept) {
  at::Tensor weight = at::ones({3, 3});
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors { return {x[0].mm(weight) + weight.sum()}; }, {numbers()});
  EXPECT_THAT(its.str(), HasSubstr("%_tensor_constant0 : [num_users=2] = get_attr"));
  EXPECT_TRUE(its.graph().find("_tensor_constant0")->constant.is_same(weight));
  weight.mul_(2);  // As the function would see it.
  const Tensors expected = {numbers(1).mm(weight) + weight.sum()};
  weight = at::Tensor();
  expect_equal(its.replay({numbers(1)}), expected);
}

TEST(TraceTest, WhatTheFunctionDoesToTensorsFromOutsideIsDoneAgain) {
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

TEST(TraceTest, NumbersAreThoseOfTheRecording) {
  const Trace its = trace(
      [](const Tensors& x) -> Tensors { return {x[0] + x[0].sum().item<double>()}; }, {numbers()});
  EXPECT_EQ(names_of(its), "arg0_1 sum_1 add output");
  expect_equal(its.replay({numbers(1)}), {numbers(1) + 15});
}

TEST(TraceTest, TensorsMadeOfNumbersAreConstants) {
  const Function function = [](const Tensors& x) -> Tensors {
    const at::Tensor made = at::tensor({1.F, 2.F, 4.F});
    const at::Tensor changed = at::tensor({3.F}).view({1, 1});
    changed.add_(1);
    return {x[0] * made, made, changed};
  };
  const Trace its = expect_replays(function, {numbers()}, {numbers(9)});
  EXPECT_EQ(names_of(its),
            "arg0_1 _tensor_constant1 lift_fresh_copy_1 _tensor_constant0 lift_fresh_copy view "
            "add_ mul output");
  expect_equal(its.replay({numbers(2)}), function({numbers(2)}));  // A second time.
}

TEST(TraceTest, RoomThatIsWrittenByOperatorsStaysRoom) {
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

TEST(TraceTest, RandomNumbersAreDrawnAnew) {
  const Trace its = trace(
      [](const Tensors& x) -> Tensors {
        return {x[0] + at::rand({2, 3})};
      },
      {numbers()});
  EXPECT_FALSE(its.replay({numbers()})[0].equal(its.replay({numbers()})[0]));
}

// What autograd has saved are tensors that no operator has returned.
TEST(TraceTest, ABackwardIsRecordedAndReplayed) {
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

TEST(TraceTest, AMaskThatABackwardNeedsIsTheReplaysOwn) {
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

TEST(TraceTest, GradientsAddUpInLeavesFromOutside) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        (x[0] * weight).sum().backward();
        return {};
      },
      {numbers()});
  EXPECT_TRUE(weight.grad().equal(numbers().sum(0)));
  EXPECT_TRUE(its.replay({numbers(1)}).empty());
  // The first gradient is the leaf's: a replay makes one that nobody has.
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

TEST(TraceTest, ResultsOfAReplayHaveNoGradient) {
  const at::Tensor weight = at::ones({3}).requires_grad_();
  const Trace its =
      trace([&](const Tensors& x) -> Tensors { return {x[0] * weight}; }, {numbers()});
  EXPECT_FALSE(its.replay({numbers()})[0].requires_grad());
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(TraceTest, ConjugatesAreReplayed) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        const at::Tensor conjugate = x[0].conj();
        return {conjugate * x[0], conjugate.resolve_conj(), at::real(x[0] * 2).neg()};
      },
      {numbers().to(at::kComplexFloat) * c10::complex<float>(1, 2)},
      {numbers(4).to(at::kComplexFloat) * c10::complex<float>(3, -1)});
}

TEST(TraceTest, CastsOfAutocastAreNodesAndTheCallersIsNotHeeded) {
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

TEST(TraceTest, WhatAutocastHasKeptIsCastAgain) {
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

TEST(TraceTest, ResultsMayBeNoneUndefinedInputsOrConstants) {
  const at::Tensor outside = at::ones({1});
  EXPECT_EQ(trace([](const Tensors&) -> Tensors { return {}; }, {}).str(),
            "graph():\n    return ()");
  const Trace its = trace(
      [&](const Tensors& x) -> Tensors {
        return {at::Tensor(), x[0], outside, x[0]};
      },
      {numbers()});
  EXPECT_THAT(its.str(), HasSubstr("return (None, arg0_1, _tensor_constant0, arg0_1)"));
  const at::Tensor given = numbers(3);
  const Tensors results = its.replay({given});
  EXPECT_FALSE(results[0].defined());
  EXPECT_TRUE(results[1].is_same(given));
  EXPECT_TRUE(results[2].is_same(outside));
}

// The most bytes that were allocated at a time.
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

TEST(TraceTest, AGraphOfManyNodesIsReplayedWithoutItsIntermediateValues) {
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

// Memory and objects that are gone are not taken for what comes after them at the same place.
TEST(TraceTest, WhatIsGoneIsForgotten) {
  expect_replays(
      [](const Tensors& x) -> Tensors {
        at::Tensor sum = x[0];
        for (int i = 0; i < 100; ++i) {
          sum = sum + (x[0] * i).view({3, 2}).view({2, 3});
          // Nobody knows of it, and it may lie where the product was.
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

TEST(TraceTest, AReplayInATraceIsRecorded) {
  const Trace inner = trace([](const Tensors& x) -> Tensors { return {x[0] * 2}; }, {numbers()});
  const Trace outer =
      expect_replays([&](const Tensors& x) -> Tensors { return {inner.replay({x[0] + 1})[0] - 3}; },
                     {numbers()}, {numbers(4)});
  EXPECT_EQ(names_of(outer), "arg0_1 add mul sub output");
}

TEST(TraceTest, ThreadsTraceAtTheSameTime) {
  const auto make = [](double factor) {
    return [factor](const Tensors& x) -> Tensors {
      at::Tensor value = x[0];
      for (int i = 0; i < 200; ++i) value = value * factor + 1;
      return {value};
    };
  };
  std::thread other([&] { expect_replays(make(0.5), {numbers()}, {numbers(1)}); });
  const Trace its = expect_replays(make(0.25), {numbers()}, {numbers(2)});
  other.join();
  EXPECT_EQ(its.graph().nodes().size(), 402U);
}

TEST(TraceTest, WhatTheFunctionThrowsEndsTheRecordingAlone) {
  const auto before = c10::impl::tls_local_dispatch_key_set();
  EXPECT_THROW(trace(
                   [](const Tensors& x) -> Tensors {
                     static_cast<void>(x[0] * 2);
                     throw std::runtime_error("no more");
                   },
                   {numbers()}),
               std::runtime_error);
  const auto after = c10::impl::tls_local_dispatch_key_set();
  EXPECT_EQ(after.included_, before.included_);
  EXPECT_EQ(after.excluded_, before.excluded_);
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] + 1}; }, {numbers()});
  EXPECT_EQ(names_of(its), "arg0_1 add output");
}

TEST(TraceTest, AnOperatorThatThrowsIsNoNode) {
  const Trace its = expect_replays(
      [](const Tensors& x) -> Tensors {
        EXPECT_ANY_THROW(x[0].view({5}));
        return {x[0] + 1};
      },
      {numbers()}, {numbers(1)});
  EXPECT_EQ(names_of(its), "arg0_1 add output");
}

TEST(TraceTest, ATraceInATraceIsRefused) {
  const Function inner = [](const Tensors& x) -> Tensors { return x; };
  EXPECT_THAT(error_of([&] {
                trace([&](const Tensors& x) -> Tensors { return trace(inner, x).replay(x); },
                      {numbers()});
              }),
              HasSubstr("this thread records a trace already"));
  trace(inner, {numbers()});
}

TEST(TraceTest, InputsThatAreNotAsTheyWereAreRefusedByName) {
  const Trace its =
      trace([](const Tensors& x) -> Tensors { return {x[0] + x[1]}; }, {numbers(), numbers()});
  const at::Tensor x = numbers();
  const auto error = [&](const Tensors& inputs) { return error_of([&] { its.replay(inputs); }); };
  EXPECT_EQ(error({x}),
            "ValueError: replay: there are 1 inputs; expected 2, as the trace was made with");
  EXPECT_EQ(error({x, numbers().t()}),
            "ValueError: replay: inputs[1] has sizes [3, 2]; expected [2, 3], as the trace was "
            "made with");
  EXPECT_EQ(error({x, numbers().to(at::kDouble)}),
            "ValueError: replay: inputs[1] has dtype Double; expected Float, as the trace was made "
            "with");
  EXPECT_EQ(error({x, numbers().to(at::kMeta)}),
            "ValueError: replay: inputs[1] has device meta; expected cpu, as the trace was made "
            "with");
  EXPECT_EQ(error({at::arange(6, at::kFloat).view({3, 2}).t(), x}),
            "ValueError: replay: inputs[0] has strides [1, 2]; expected [3, 1], as the trace was "
            "made with");
  EXPECT_EQ(error({numbers().to_sparse(), x}),
            "ValueError: replay: inputs[0] has layout Sparse; expected Strided, as the trace was "
            "made with");
  EXPECT_THAT(error({at::Tensor(), x}), HasSubstr("replay: inputs[0] is not defined"));
  EXPECT_THAT(error({x, x}), HasSubstr("replay: inputs[1] shares memory with inputs[0]"));
  EXPECT_THAT(error_of([&] {
                trace([](const Tensors& all) { return all; }, {x, x.view({6})});
              }),
              HasSubstr("ValueError: trace: inputs[1] shares memory with inputs[0]"));
}

}  // namespace
}  // namespace distrun
