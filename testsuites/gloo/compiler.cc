#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/jit/testing/file_check.h>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "distrun/trace.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

// Records a function that runs a collective on its input. The graph must wait for the collective
// before it uses the result, and must replay it on other inputs.
struct CompilerTest : DefaultGroupTest {
  // A started collective, and the tensor that receives its result.
  using Begun = std::pair<Work, at::Tensor>;
  using Collective = std::function<Begun(const at::Tensor&)>;
  // What this rank receives, given the value that each rank passes.
  using Received = float (*)(const std::vector<float>& passed);

  // Follows first inputs back from `node` to the collective: the graph must wait for it.
  static void expect_waits_for(const Node* node, const std::string& collective);
  // Compares values with computed ones: if a backend is wrong, so is the replay.
  static void expect_replays(const c10::Device& device, const std::string& name,
                             const Collective& collective, Received received);
};

void CompilerTest::expect_waits_for(const Node* node, const std::string& collective) {
  bool has_waited = false;
  while (node->op_name() != collective) {
    has_waited = has_waited || node->op_name() == "_c10d_functional.wait_tensor";
    ASSERT_FALSE(node->inputs().empty()) << "nothing leads from %mul to " << collective;
    node = node->inputs().front();
  }
  EXPECT_TRUE(has_waited);
}

void CompilerTest::expect_replays(const c10::Device& device, const std::string& name,
                                  const Collective& collective, Received received) {
  const auto function = [&](const Tensors& inputs) -> Tensors {
    const auto [work, result] = collective(inputs[0] + inputs[0]);
    work.wait();
    return {result * 2};
  };
  const at::Tensor x = at::full({2, 2}, rank(), at::TensorOptions(device).dtype(at::kFloat));
  const at::Tensor other = x.clone();
  const Trace traced = trace(function, {other});
  const std::string target = "torch.ops." + name + ".default";
  torch::jit::testing::FileCheck()
      .check("%arg0_1")
      ->check("aten.add.Tensor](args = (%arg0_1, %arg0_1)")
      ->check(target)
      ->check("%wait_tensor")
      ->check("aten.mul.Scalar")
      ->check("return (mul,)")
      ->run(traced.str());
  expect_waits_for(traced.graph().find("mul"), name);

  x.add_(1);
  other.add_(1);
  const at::Tensor expected = function({x})[0];
  std::vector<float> passed;
  for (int rank = 0; rank < get_world_size(); ++rank) {
    passed.push_back(2 * (static_cast<float>(rank) + 1));
  }
  EXPECT_TENSORS_EQUAL(expected, at::full({2, 2}, 2 * received(passed), x.options()));
  EXPECT_TENSORS_EQUAL(traced.replay({other})[0], expected);
  other.add_(1);
  const at::Tensor replayed = traced.replay({other})[0];
  EXPECT_FALSE(replayed.equal(expected)) << replayed;
}

float sum(const std::vector<float>& passed) {
  return std::accumulate(passed.begin(), passed.end(), 0.0F);
}

float sum_of_sums(const std::vector<float>& passed) {
  return sum(passed) * static_cast<float>(passed.size());
}

float first(const std::vector<float>& passed) { return passed.front(); }

// Rank 0 adds the receiving rank to its value.
float first_and_rank(const std::vector<float>& passed) {
  return passed.front() + static_cast<float>(get_rank());
}

CompilerTest::Begun begin_all_reduce(const at::Tensor& tensor) {
  return {all_reduce(tensor, ReduceOp::SUM, {.async_op = true}), tensor};
}

CompilerTest::Begun begin_all_gather(const at::Tensor& tensor) {
  Tensors outputs;
  for (int i = 0; i < get_world_size(); ++i) outputs.push_back(at::zeros_like(tensor));
  const Work work = all_gather(outputs, tensor, {.async_op = true});
  work.wait();
  at::Tensor sum = outputs[0];
  for (std::size_t i = 1; i < outputs.size(); ++i) sum = sum + outputs[i];
  return {work, sum};
}

CompilerTest::Begun begin_broadcast(const at::Tensor& tensor) {
  return {broadcast(tensor, /*src=*/0, {.async_op = true}), tensor};
}

CompilerTest::Begun begin_scatter(const at::Tensor& tensor) {
  Tensors inputs;
  for (int i = 0; get_rank() == 0 && i < get_world_size(); ++i) inputs.push_back(tensor + i);
  const at::Tensor output = at::zeros_like(tensor);
  return {scatter(output, inputs, /*src=*/0, {.async_op = true}), output};
}

CompilerTest::Begun begin_two_all_reduces(const at::Tensor& tensor) {
  all_reduce(tensor, ReduceOp::SUM, {.async_op = true}).wait();
  return begin_all_reduce(tensor);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_allreduce_work_wait_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_replays(cpu(), "c10d.allreduce_", begin_all_reduce, sum);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_allreduce_work_wait_gpu, {.ranks = 2, .min_gpus = 2}) {
  expect_replays(gpu(), "c10d.allreduce_", begin_all_reduce, sum);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_allgather_work_wait_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_replays(cpu(), "c10d.allgather_", begin_all_gather, sum);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_allgather_work_wait_gpu, {.ranks = 2, .min_gpus = 2}) {
  expect_replays(gpu(), "c10d.allgather_", begin_all_gather, sum);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_broadcast_work_wait_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_replays(cpu(), "c10d.broadcast_", begin_broadcast, first);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_broadcast_work_wait_gpu, {.ranks = 2, .min_gpus = 2}) {
  expect_replays(gpu(), "c10d.broadcast_", begin_broadcast, first);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_scatter_work_wait_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_replays(cpu(), "c10d.scatter_", begin_scatter, first_and_rank);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_scatter_work_wait_gpu, {.ranks = 2, .min_gpus = 2}) {
  expect_replays(gpu(), "c10d.scatter_", begin_scatter, first_and_rank);
}

// Python wraps the tensor so that the collective is recorded. In C++, this is another tensor with
// the same memory.
CompilerTest::Begun begin_all_reduce_of_another(const at::Tensor& tensor) {
  return {all_reduce(tensor.variable_data(), ReduceOp::SUM, {.async_op = true}), tensor};
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_nested_comm_tensor_wrapping,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_replays(cpu(), "c10d.allreduce_", begin_all_reduce_of_another, sum);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_consecutive_comm_work_wait_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  expect_replays(cpu(), "c10d.allreduce_", begin_two_all_reduces, sum_of_sums);
}

DISTRIBUTED_TEST(gloo, CompilerTest, test_consecutive_comm_work_wait_gpu,
                 {.ranks = 2, .min_gpus = 2}) {
  expect_replays(gpu(), "c10d.allreduce_", begin_two_all_reduces, sum_of_sums);
}

}  // namespace
}  // namespace distrun
