// What a trace records and prints, and what a replay computes.
#include "distrun/trace.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/index.h>
#include <ATen/ops/max.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/split.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/testing/file_check.h>

#include "parallel/trace/test/trace_fixture.h"

namespace distrun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TraceTest, PrintsGraphsAsTorchFxDoes) {
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

TEST(TraceTest, WorksWithFileCheck) {
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

TEST(TraceTest, LinksNodesFromTheResultToTheInput) {
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

TEST(TraceTest, ListsANodeThatUsesAValueTwiceAsOneUser) {
  const Trace its = trace([](const Tensors& x) -> Tensors { return {x[0] * x[0]}; }, {numbers()});
  EXPECT_EQ(its.graph().find("arg0_1")->users.size(), 1U);
  EXPECT_EQ(its.graph().find("mul")->inputs().size(), 2U);
}

TEST(TraceTest, NumbersNamesPerOperator) {
  const Trace its =
      trace([](const Tensors& x) -> Tensors { return {((x[0] * 2) * 3).add_(1).add_(2) * 4}; },
            {numbers()});
  EXPECT_EQ(names_of(its), "arg0_1 mul mul_1 add_ add__1 mul_2 output");
}

TEST(TraceTest, PrintsLiteralsAsPythonDoes) {
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
                x[0].sum(at::IntArrayRef({0, 1}), true, at::kDouble),
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

TEST(TraceTest, AcceptsListsOfTensorsWithGaps) {
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

TEST(TraceTest, ReplaysTheNumbersOfTheRecording) {
  const Trace its = trace(
      [](const Tensors& x) -> Tensors { return {x[0] + x[0].sum().item<double>()}; }, {numbers()});
  EXPECT_EQ(names_of(its), "arg0_1 sum_1 add output");
  expect_equal(its.replay({numbers(1)}), {numbers(1) + 15});
}

TEST(TraceTest, RecordsTensorsMadeOfNumbersAsConstants) {
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
  expect_equal(its.replay({numbers(2)}), function({numbers(2)}));  // A replay does not change them.
}

TEST(TraceTest, DrawsNewRandomNumbersInAReplay) {
  const Trace its = trace(
      [](const Tensors& x) -> Tensors {
        return {x[0] + at::rand({2, 3})};
      },
      {numbers()});
  EXPECT_FALSE(its.replay({numbers()})[0].equal(its.replay({numbers()})[0]));
}

TEST(TraceTest, ReturnsUndefinedTensorsInputsAndConstants) {
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

}  // namespace
}  // namespace distrun
