// Collectives of non-contiguous tensors, on every rank of a real run:
//
//     distrun launch --nproc-per-node 3 build/tests/backends_multirank_test
//         --gtest_filter='StridedMultirankTest.*'
//
// Every rank runs every test in the same order.
#include <ATen/ops/cat.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "backends/test/multirank_test.h"
#include "distrun/point_to_point.h"

namespace distrun {
namespace {

using ::testing::HasSubstr;

enum class Strides { kContiguous, kEveryOther, kTransposed };

// Makes tensors with these strides, and checks the memory between their elements.
class Maker {
 public:
  explicit Maker(Strides strides) : strides_(strides) {}

  at::Tensor like(const at::Tensor& values) {
    if (strides_ == Strides::kContiguous) return values.clone();
    if (strides_ == Strides::kTransposed) return values.t().contiguous().t();
    const at::Tensor both = at::stack({values, at::full_like(values, -7)}, -1);
    beside_.push_back(both.select(-1, 1));
    return both.select(-1, 0);
  }
  Tensors like(const Tensors& all) {
    Tensors made;
    for (const at::Tensor& one : all) made.push_back(like(one));
    return made;
  }

  void expect_nothing_else_was_written() const {
    for (const at::Tensor& beside : beside_) EXPECT_TRUE(beside.eq(-7).all().item<bool>());
  }

 private:
  const Strides strides_;
  Tensors beside_;
};

class StridedMultirankTest : public MultirankTest {
 protected:
  using Collective = std::function<Work(Maker&, Tensors& outputs, const CollectiveOptions&)>;

  static Tensors inputs() {
    return of_all_ranks([](int rank) { return input() * 7 + rank; });
  }
  static Tensors empties() {
    return of_all_ranks([](int) { return at::full({2, 3}, -1.0); });
  }
  static int last() { return get_world_size() - 1; }
  static bool is_last() { return get_rank() == last(); }

  static Tensors outputs_of(const Collective& collective, Strides strides, bool async_op) {
    Maker make(strides);
    Tensors outputs;
    collective(make, outputs, {.async_op = async_op}).wait();
    make.expect_nothing_else_was_written();
    return outputs;
  }

  static void expect_equal(const Tensors& got, const Tensors& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(got[i].equal(expected[i])) << i << ": " << got[i] << expected[i];
    }
  }

  static void expect_strides_do_not_matter(const Collective& collective) {
    const Tensors expected = outputs_of(collective, Strides::kContiguous, false);
    for (const auto strides : {Strides::kEveryOther, Strides::kTransposed}) {
      for (const bool async_op : {false, true}) {
        expect_equal(outputs_of(collective, strides, async_op), expected);
      }
    }
  }
};

TEST_F(StridedMultirankTest, BroadcastAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(input())};
    return broadcast(out[0], last(), options);
  });
}

TEST_F(StridedMultirankTest, AllReduceAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(input())};
    return all_reduce(out[0], ReduceOp::SUM, options);
  });
}

TEST_F(StridedMultirankTest, AllReduceCoalescedAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = make.like(Tensors{input(), input().sum(0, /*keepdim=*/true)});
    return all_reduce_coalesced(out, ReduceOp::SUM, options);
  });
}

TEST_F(StridedMultirankTest, ReduceAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    const at::Tensor tensor = make.like(input());
    if (is_last()) out = {tensor};
    return reduce(tensor, last(), ReduceOp::SUM, options);
  });
}

TEST_F(StridedMultirankTest, AllGatherAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = make.like(empties());
    return all_gather(out, make.like(input()), options);
  });
}

TEST_F(StridedMultirankTest, AllGatherIntoTensorAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(at::cat(empties()))};
    return all_gather_into_tensor(out[0], make.like(input()), options);
  });
}

TEST_F(StridedMultirankTest, AllGatherCoalescedAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    const std::vector<Tensors> lists = {make.like(empties()), make.like(empties())};
    for (const Tensors& list : lists) out.insert(out.end(), list.begin(), list.end());
    return all_gather_coalesced(lists, make.like(Tensors{input(), -input()}), options);
  });
}

TEST_F(StridedMultirankTest, GatherAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    if (is_last()) out = make.like(empties());
    return gather(make.like(input()), out, last(), options);
  });
}

TEST_F(StridedMultirankTest, ScatterAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(at::zeros({2, 3}))};
    return scatter(out[0], is_last() ? make.like(inputs()) : Tensors(), last(), options);
  });
}

TEST_F(StridedMultirankTest, ReduceScatterAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(at::zeros({2, 3}))};
    return reduce_scatter(out[0], make.like(inputs()), ReduceOp::SUM, options);
  });
}

TEST_F(StridedMultirankTest, ReduceScatterTensorAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(at::zeros({2, 3}))};
    return reduce_scatter_tensor(out[0], make.like(at::cat(inputs())), ReduceOp::SUM, options);
  });
}

TEST_F(StridedMultirankTest, AllToAllAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = make.like(empties());
    return all_to_all(out, make.like(inputs()), options);
  });
}

TEST_F(StridedMultirankTest, AllToAllSingleAcceptsAnyStrides) {
  expect_strides_do_not_matter([](Maker& make, Tensors& out, const CollectiveOptions& options) {
    out = {make.like(at::cat(empties()))};
    return all_to_all_single(out[0], make.like(at::cat(inputs())), {}, {}, options);
  });
}

TEST_F(StridedMultirankTest, SendAndReceiveAcceptAnyStrides) {
  if (get_world_size() == 1) GTEST_SKIP() << "needs a peer";
  const int next = (get_rank() + 1) % get_world_size();
  const int previous = (get_rank() + last()) % get_world_size();
  for (const auto strides : {Strides::kEveryOther, Strides::kTransposed}) {
    Maker make(strides);
    const at::Tensor got = make.like(at::zeros({2, 3}));
    isend(make.like(input()), next);
    recv(got, previous);
    EXPECT_TRUE(got.equal(input_of(previous))) << got;
    make.expect_nothing_else_was_written();
  }
}

TEST_F(StridedMultirankTest, ReducesTheValuesOfConjugatedViews) {
  const at::Tensor numbers = at::complex(input(), input() + 1), conjugated = numbers.conj();
  all_reduce(conjugated);
  const at::Tensor parts = at::stack(of_all_ranks(input_of)).sum(0);
  EXPECT_TRUE(numbers.equal(at::complex(parts, parts + get_world_size()))) << numbers;
}

TEST_F(StridedMultirankTest, FutureHoldsTheCallersTensors) {
  const at::Tensor tensor = input().t();
  const auto sum =
      all_reduce(tensor, ReduceOp::SUM, {.async_op = true})
          .get_future()
          ->then([](auto& future) { return future.value().toTensorVector().at(0).sum(); },
                 c10::TensorType::get());
  sum->wait();
  EXPECT_EQ(sum->value().toTensor().item<float>(), tensor.sum().item<float>());
  EXPECT_TRUE(tensor.t().equal(at::stack(of_all_ranks(input_of)).sum(0))) << tensor;
}

TEST_F(StridedMultirankTest, RejectsOutputsWhoseElementsShareMemory) {
  const at::Tensor expanded = at::zeros({1}).expand({4});
  try {
    all_reduce(expanded);
    ADD_FAILURE() << "no error";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("tensor has elements that share memory (sizes [4], strides [0])"));
  }
  const Tensors got = of_all_ranks([](int) { return at::zeros({4}); });
  all_gather(got, expanded);  // An input is only read.
}

}  // namespace
}  // namespace distrun
