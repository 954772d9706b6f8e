#include "distrun/collectives.h"

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/nccl_options.h"
#include "distrun/point_to_point.h"
#include "testsuites/nccl/nccl_test.h"

namespace distrun {
namespace {

class CollectivesTest : public NcclTest {
 protected:
  // rank + 1 in every element.
  static at::Tensor own(at::ScalarType dtype = at::kFloat) { return filled(rank() + 1, dtype); }
  static at::Tensor filled(double value, at::ScalarType dtype = at::kFloat) {
    return make(at::full({2, 3}, value, dtype));
  }

  // The results for 1, 2, …, size().
  static double sum() { return size() * (size() + 1) / 2.0; }
  static double product() {
    double all = 1;
    for (int i = 1; i <= size(); ++i) all *= i;
    return all;
  }

  static Tensors of_each_rank() {
    Tensors all;
    for (int i = 0; i < size(); ++i) all.push_back(filled(i + 1));
    return all;
  }
  static Tensors room(const at::Tensor& like) {
    Tensors all;
    for (int i = 0; i < size(); ++i) all.push_back(filled(-1).to(like.scalar_type()));
    return all;
  }
};

NCCL_TEST(CollectivesTest, test_all_reduce) {
  const auto result = [](ReduceOp op, at::ScalarType dtype) {
    const at::Tensor x = own(dtype);
    all_reduce(x, op);
    return x;
  };
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kByte, at::kChar,
                           at::kInt, at::kLong}) {
    SCOPED_TRACE(c10::toString(dtype));
    EXPECT_TENSORS_EQUAL(result(ReduceOp::SUM, dtype), filled(sum(), dtype));
    EXPECT_TENSORS_EQUAL(result(ReduceOp::PRODUCT, dtype), filled(product(), dtype));
    EXPECT_TENSORS_EQUAL(result(ReduceOp::MIN, dtype), filled(1, dtype));
    EXPECT_TENSORS_EQUAL(result(ReduceOp::MAX, dtype), filled(size(), dtype));
  }
  EXPECT_TENSORS_EQUAL(result(ReduceOp::AVG, at::kFloat), filled(sum() / size()));
  EXPECT_TENSORS_EQUAL(result(ReduceOp::MAX, at::kBool), filled(1, at::kBool));
}

NCCL_TEST(CollectivesTest, test_all_reduce_of_complex_numbers) {
  const at::Tensor x = own(at::kComplexFloat);
  all_reduce(x);
  EXPECT_TENSORS_EQUAL(x, filled(sum(), at::kComplexFloat));
}

NCCL_TEST(CollectivesTest, test_all_reduce_coalesced) {
  const Tensors all = {own(), own().flatten(), make(at::ones({1}))};
  all_reduce_coalesced(all);
  EXPECT_TENSORS_EQUAL(all, (Tensors{filled(sum()), filled(sum()).flatten(),
                                     make(at::full({1}, static_cast<float>(size())))}));
}

NCCL_TEST(CollectivesTest, test_broadcast) {
  for (int root = 0; root < size(); ++root) {
    const at::Tensor x = own();
    broadcast(x, root);
    EXPECT_TENSORS_EQUAL(x, filled(root + 1));
  }
}

NCCL_TEST(CollectivesTest, test_reduce) {
  for (int root = 0; root < size(); ++root) {
    const at::Tensor x = own();
    reduce(x, root);
    if (rank() == root) {
      EXPECT_TENSORS_EQUAL(x, filled(sum()));
    }
  }
}

NCCL_TEST(CollectivesTest, test_all_gather) {
  const Tensors all = room(own());
  all_gather(all, own());
  EXPECT_TENSORS_EQUAL(all, of_each_rank());

  const at::Tensor one = make(at::zeros({2 * size(), 3}));
  all_gather_into_tensor(one, own());
  EXPECT_TENSORS_EQUAL(one.chunk(size()), of_each_rank());
}

NCCL_TEST(CollectivesTest, test_gather) {
  for (int root = 0; root < size(); ++root) {
    const Tensors all = rank() == root ? room(own()) : Tensors();
    gather(own(), all, root);
    EXPECT_TENSORS_EQUAL(all, rank() == root ? of_each_rank() : Tensors());
  }
}

NCCL_TEST(CollectivesTest, test_scatter) {
  for (int root = 0; root < size(); ++root) {
    const at::Tensor x = filled(-1);
    scatter(x, rank() == root ? of_each_rank() : Tensors(), root);
    EXPECT_TENSORS_EQUAL(x, own());
  }
}

NCCL_TEST(CollectivesTest, test_reduce_scatter) {
  // Each rank has 1, 2, … for the ranks 0, 1, …
  at::Tensor part = filled(-1);
  reduce_scatter(part, of_each_rank());
  EXPECT_TENSORS_EQUAL(part, filled((rank() + 1) * size()));

  part = filled(-1);
  reduce_scatter_tensor(part, at::cat(of_each_rank()), ReduceOp::MAX);
  EXPECT_TENSORS_EQUAL(part, own());
}

NCCL_TEST(CollectivesTest, test_all_to_all) {
  // Rank r sends 10 r + i to rank i.
  Tensors sent, expected;
  for (int i = 0; i < size(); ++i) {
    sent.push_back(filled(10 * rank() + i));
    expected.push_back(filled(10 * i + rank()));
  }
  const Tensors received = room(own());
  all_to_all(received, sent);
  EXPECT_TENSORS_EQUAL(received, expected);

  const at::Tensor one = make(at::zeros({2 * size(), 3}));
  all_to_all_single(one, at::cat(sent));
  EXPECT_TENSORS_EQUAL(one, at::cat(expected));
}

NCCL_TEST(CollectivesTest, test_bytes) {
  std::vector<std::string> texts;
  for (int i = 0; i < size(); ++i) texts.emplace_back(static_cast<std::size_t>(i) * 3 + 1, 'x');
  EXPECT_EQ(all_gather_bytes(texts[static_cast<std::size_t>(rank())]), texts);
  EXPECT_EQ(broadcast_bytes(rank() == 0 ? "hello" : "", 0), "hello");
}

NCCL_TEST(CollectivesTest, test_async_op) {
  const at::Tensor x = own();
  Work work = all_reduce(x, ReduceOp::SUM, {.async_op = true});
  work.wait();
  EXPECT_TENSORS_EQUAL(x, filled(sum()));
}

NCCL_TEST(CollectivesTest, test_barrier_and_sequence_numbers) {
  const std::uint64_t before = get_sequence_number();
  barrier();
  barrier();
  EXPECT_EQ(get_sequence_number(), before + 2);
}

NCCL_TEST(CollectivesTest, test_coalescing_of_libtorch) {
  c10d::ProcessGroup& group = *Group().process_group();
  Tensors one = {own()}, other = {own(at::kDouble)};
  group.startCoalescing(at::kCUDA);
  group.allreduce(one);
  group.allreduce(other);
  group.endCoalescing(at::kCUDA)->wait();
  EXPECT_TENSORS_EQUAL(one[0], filled(sum()));
  EXPECT_TENSORS_EQUAL(other[0], filled(sum(), at::kDouble));
}

NCCL_TEST(CollectivesTest, test_group_with_options) {
  const auto options = c10::make_intrusive<NcclOptions>();
  options->is_high_priority_stream = true;
  options->max_ctas = 2;
  const Group group = new_group(std::nullopt, {.backend_options = options});
  const at::Tensor x = own();
  all_reduce(x, ReduceOp::SUM, {.group = group});
  EXPECT_TENSORS_EQUAL(x, filled(sum()));
  destroy_process_group(group);
}

NCCL_TEST(CollectivesTest, test_groups_of_one_rank) {
  const Subgroups groups = new_subgroups(1);
  const at::Tensor x = own();
  all_reduce(x, ReduceOp::SUM, {.group = groups.own.value()});
  EXPECT_TENSORS_EQUAL(x, own());
}

NCCL_TEST(CollectivesTest, test_errors_name_the_argument) {
  EXPECT_THROWS_WITH(all_reduce(own(at::kShort)), c10::ValueError,
                     "tensor has dtype Short, which nccl does not reduce");
  EXPECT_THROWS_WITH(all_reduce(own(at::kInt), ReduceOp::BAND), c10::ValueError,
                     "nccl has no BAND");
  EXPECT_THROWS_WITH(
      all_reduce(at::ones({2})), c10::Error,
      "tensor is on cpu, and the default group has no backend for that: it has nccl");
}

NCCL_TEST(CollectivesTest, test_groups_split_the_default_group) {
  destroy_process_group();
  init_process_group("nccl", {.device_id = gpu()});
  // Each rank has a group of its own: the others must take part in the split.
  Group own_group;
  for (int i = 0; i < size(); ++i) {
    const Group group = new_group({i});
    if (i == rank()) own_group = group;
  }
  const Group all = new_group();
  const at::Tensor x = own(), y = own();
  all_reduce(x, ReduceOp::SUM, {.group = own_group});
  all_reduce(y, ReduceOp::SUM, {.group = all});
  EXPECT_TENSORS_EQUAL(x, own());
  EXPECT_TENSORS_EQUAL(y, filled(sum()));
}

DISTRIBUTED_TEST(nccl, CollectivesTest, test_send_and_receive_on_two_gpus,
                 {.ranks = 2, .min_gpus = 2, .backends = {"nccl"}}) {
  const int other = 1 - rank();
  const at::Tensor x = filled(-1);
  if (rank() == 0) send(own(), other);
  recv(x, other);
  if (rank() == 1) send(own(), other);
  EXPECT_TENSORS_EQUAL(x, filled(other + 1));

  const at::Tensor y = filled(-1);
  for (Work& work :
       batch_isend_irecv({{P2POp::Kind::kSend, own(), other}, {P2POp::Kind::kReceive, y, other}})) {
    work.wait();
  }
  EXPECT_TENSORS_EQUAL(y, filled(other + 1));
}

}  // namespace
}  // namespace distrun
