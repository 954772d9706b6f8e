#include <string>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "distrun/collectives.h"
#include "distrun/process_group.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"
#include "testsuites/gloo/warnings.h"
#include "testsuites/testing/default_group.h"

namespace distrun {
namespace {

struct CommTest : DefaultGroupTest {};

// Five pieces of each dtype in turn, so that no bucket equals the list.
Tensors pieces(MakeTensor make, at::ScalarType half) {
  Tensors all;
  for (const auto dtype : {half, at::kFloat, half, at::kDouble, half, at::kFloat}) {
    for (const at::Tensor& piece : make(at::arange(60, dtype)).chunk(5)) all.push_back(piece);
  }
  return all;
}

void broadcast_coalesced(MakeTensor make, at::ScalarType half) {
  const Tensors target = pieces(make, half);
  for (int root = 0; root < get_world_size(); ++root) {
    SCOPED_TRACE(root);
    Tensors tensors;
    for (const at::Tensor& one : target) {
      tensors.push_back(get_rank() == root ? one.clone() : at::zeros_like(one));
    }
    c10d::broadcast_coalesced(Group().process_group(), tensors, /*buffer_size=*/256, root);
    EXPECT_TENSORS_EQUAL(tensors, target);
  }
}

DISTRIBUTED_TEST(gloo, CommTest, test_broadcast_coalesced_gloo_cpu,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  broadcast_coalesced(on_cpu, at::kFloat);
}

DISTRIBUTED_TEST(gloo, CommTest, test_broadcast_coalesced_gloo_cuda, {.ranks = 2, .min_gpus = 2}) {
  broadcast_coalesced(on_cuda, at::kHalf);
}

// The sequence numbers of `group` on all ranks, gathered in another group, because gathering
// counts.
std::vector<std::string> numbers(const Group& group, const Group& told_in) {
  return all_gather_bytes(std::to_string(get_sequence_number(group)), told_in);
}

std::vector<std::string> each(int ranks, std::uint64_t number) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks), std::to_string(number));
}

DISTRIBUTED_TEST(gloo, CommTest, test_sequence_num_set_default_pg_gloo,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  EXPECT_EQ(numbers({}, {}), each(2, 0));
}

DISTRIBUTED_TEST(gloo, CommTest, test_sequence_num_set_gloo_new_group,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  const Group group = new_group({{0, 1}});
  EXPECT_EQ(numbers(group, group), each(2, 0));
}

// Each collective counts once on every rank.
void count_collectives(const Group& group, const Group& told_in, MakeTensor make) {
  const std::uint64_t first = get_sequence_number(group);
  const at::Tensor one = make(at::ones({1}));
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(numbers(group, told_in), each(get_world_size(group), first + i));
    all_reduce(one, ReduceOp::SUM, {.group = group});
  }
  EXPECT_EQ(numbers(group, told_in), each(get_world_size(group), first + 10));
}

void count_in_default_group(MakeTensor make) { count_collectives({}, new_group(), make); }

DISTRIBUTED_TEST(gloo, CommTest, test_sequence_num_incremented_gloo_default,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  count_in_default_group(on_cpu);
}

DISTRIBUTED_TEST(gloo, CommTest, test_sequence_num_incremented_gloo_default_cuda,
                 {.ranks = 2, .min_gpus = 2}) {
  count_in_default_group(on_cuda);
}

void count_in_subgroup(MakeTensor make) {
  const Group group = new_group({{0, 1, 2}}), told_in = new_group({{0, 1, 2}});
  EXPECT_EQ(group.is_member(), get_rank() < 3);
  if (!group.is_member()) return;
  count_collectives(group, told_in, make);

  // Rank 1 is one ahead until the others follow.
  const at::Tensor one = make(at::ones({1}));
  Work ahead;
  if (get_rank() == 1) ahead = all_reduce(one, ReduceOp::SUM, {.group = group, .async_op = true});
  EXPECT_EQ(numbers(group, told_in), (std::vector<std::string>{"10", "11", "10"}));
  if (get_rank() != 1) all_reduce(one, ReduceOp::SUM, {.group = group});
  ahead.wait();
  EXPECT_EQ(numbers(group, told_in), each(3, 11));
  EXPECT_TENSORS_EQUAL(one, make(at::full({1}, 3.0)));
}

DISTRIBUTED_TEST(gloo, CommTest, test_sequence_num_incremented_gloo_subgroup,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  count_in_subgroup(on_cpu);
}

DISTRIBUTED_TEST(gloo, CommTest, test_sequence_num_incremented_gloo_subgroup_cuda,
                 {.ranks = 4, .min_gpus = 4}) {
  count_in_subgroup(on_cuda);
}

void warn_not_in_group(MakeTensor make) {
  const Group group = new_group({{0}});
  const at::Tensor x = make(at::full({2, 2}, 1.0 * get_rank())), before = x.clone();
  const Tensors xs = {make(at::full({2, 2}, 7.0))}, xs_before = {xs[0].clone()};
  const Warnings warnings;
  all_gather(xs, x, {.group = group});
  all_reduce(x, ReduceOp::SUM, {.group = group});
  barrier({.group = group});
  broadcast(x, 0, {.group = group});
  EXPECT_TENSORS_EQUAL(x, before);
  if (get_rank() == 0) {
    EXPECT_TENSORS_EQUAL(xs[0], before);
    EXPECT_EQ(warnings.texts(), std::vector<std::string>());
    return;
  }
  EXPECT_TENSORS_EQUAL(xs, xs_before);
  std::vector<std::string> expected;
  for (const char* function : {"all_gather", "all_reduce", "barrier", "broadcast"}) {
    expected.push_back(std::string("Running ") + function +
                       " on global rank 1 which does not belong to the given group.");
  }
  EXPECT_EQ(warnings.texts(), expected);
}

DISTRIBUTED_TEST(gloo, CommTest, test_gloo_warn_not_in_group,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  warn_not_in_group(on_cpu);
}

DISTRIBUTED_TEST(gloo, CommTest, test_gloo_warn_not_in_group_cuda, {.ranks = 2, .min_gpus = 2}) {
  warn_not_in_group(on_cuda);
}

DISTRIBUTED_TEST(gloo, CommTest, test_gloo_rank_membership,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  const Group group = new_group({{1}});
  EXPECT_EQ(get_group_rank(group, 1), 0);
  EXPECT_EQ(get_global_rank(group, 0), 1);
  EXPECT_THROWS_WITH(get_group_rank(group, 0), c10::ValueError, "rank 0 is not in group 1");
  EXPECT_THROWS_WITH(get_global_rank(group, 1), c10::ValueError,
                     "group rank 1 is not in group .*; expected 0 to 0");
  EXPECT_EQ(get_process_group_ranks(group), std::vector<int>{1});
  EXPECT_EQ(get_rank(group), get_rank() == 1 ? 0 : -1);
  EXPECT_EQ(get_world_size(group), get_rank() == 1 ? 1 : -1);
}

DISTRIBUTED_TEST(gloo, CommTest, test_tensor_dtype_mismatch,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  const at::Tensor x = at::full({2, 2}, 7.0), half = x.to(at::kHalf);
  const Tensors xs = {at::zeros({2, 2}), at::zeros({2, 2})};
  const Tensors halves = {xs[0], xs[1].to(at::kHalf)};
  const char* const text = "on rank [01]: .* has dtype (Half; expected Float|Float; expected Half)";
  EXPECT_THROWS_WITH(all_gather(halves, x), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_gather(xs, half), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_gather_coalesced({halves}, {x}), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_gather_coalesced({xs}, {half}), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_gather_into_tensor(at::zeros({4, 2}), half), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_reduce_coalesced(halves), c10::ValueError, text);
  EXPECT_THROWS_WITH(reduce_scatter(x, halves), c10::ValueError, text);
  EXPECT_THROWS_WITH(reduce_scatter(half, xs), c10::ValueError, text);
  EXPECT_THROWS_WITH(reduce_scatter_tensor(half, at::zeros({4, 2})), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_to_all_single(half, x), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_to_all(halves, xs), c10::ValueError, text);
  EXPECT_THROWS_WITH(all_to_all(xs, halves), c10::ValueError, text);
  const auto here = GroupRank(get_rank());  // The root has the list.
  EXPECT_THROWS_WITH(scatter(x, halves, here), c10::ValueError, text);
  EXPECT_THROWS_WITH(scatter(half, xs, here), c10::ValueError, text);
  EXPECT_THROWS_WITH(gather(half, xs, here), c10::ValueError, text);
  EXPECT_THROWS_WITH(gather(x, halves, here), c10::ValueError, text);
}

DISTRIBUTED_TEST(gloo, CommTest, test_tensor_dtype_complex,
                 {.ranks = 2, .backends = {"gloo", "shm"}}) {
  const auto parts_of = [](int rank) { return at::arange(2, at::kFloat) + 10 * rank; };
  const at::Tensor parts = parts_of(get_rank()), number = at::view_as_complex(parts);
  const Tensors expected = {parts_of(0), parts_of(1)};
  for (const at::Tensor& input : {parts, number}) {
    for (const bool complex : {false, true}) {
      const Tensors got = {at::zeros({2}), at::zeros({2})};
      all_gather({got[0], complex ? at::view_as_complex(got[1]) : got[1]}, input);
      EXPECT_TENSORS_EQUAL(got, expected);
    }
  }
  const at::Tensor sum = number.clone();
  all_reduce(sum);
  EXPECT_TENSORS_EQUAL(sum, at::view_as_complex(parts_of(0) + parts_of(1)));
  EXPECT_THROWS_WITH(all_reduce(sum, ReduceOp::MAX), c10::ValueError,
                     "all_reduce on rank [01]: .* have no MAX");
}

DISTRIBUTED_TEST(gloo, CommTest, test_bool_tensors, {.ranks = 2, .backends = {"gloo", "shm"}}) {
  const at::Tensor values = at::tensor({1, 0, 0, 1}).to(at::kBool);
  const at::Tensor got = get_rank() == 0 ? values.clone() : at::zeros({4}, at::kBool);
  broadcast(got, 0);
  EXPECT_TENSORS_EQUAL(got, values);
}

}  // namespace
}  // namespace distrun
