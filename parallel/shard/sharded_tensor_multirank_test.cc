// Sharded tensors, on every rank of a run.
//
//     distrun launch --nproc-per-node 2 build/tests/parallel_multirank_test
//         --gtest_filter='ShardedTensorMultirankTest.*'
#include <numeric>

#include <ATen/ops/_nested_tensor_from_tensor_list.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include "backends/test/multirank_test.h"
#include "distrun/distributed_data_parallel.h"
#include "distrun/sharded_tensor.h"

namespace distrun {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Rank r has r + 1 rows, so that the shards differ.
std::int64_t rows_of(int rank) { return rank + 1; }
std::int64_t first_row_of(int rank) { return std::int64_t{rank} * (rank + 1) / 2; }
std::vector<std::int64_t> whole_size() { return {first_row_of(get_world_size()), 4}; }

at::Tensor tensor_of(int rank) { return at::full({rows_of(rank), 4}, 1.0 + rank); }
Shard own_shard() {
  return Shard::from_tensor_and_offsets(tensor_of(get_rank()), {first_row_of(get_rank()), 0});
}

bool is_last() { return get_rank() == get_world_size() - 1; }
std::string last() { return std::to_string(get_world_size() - 1); }

class ShardedTensorMultirankTest : public MultirankTest {
 protected:
  // Expects the same error on every rank, and returns it.
  static std::string complaint(const std::vector<Shard>& shards,
                               const std::vector<std::int64_t>& size = whole_size()) {
    std::string text;
    try {
      init_from_local_shards(shards, size);
    } catch (const c10::ValueError& error) {
      text = error.what_without_backtrace();
    }
    EXPECT_THAT(all_gather_bytes(text), Each(text));
    return text;
  }

  static std::string complaint_of_last(const Shard& shard) {
    return complaint({is_last() ? shard : own_shard()});
  }
};

TEST_F(ShardedTensorMultirankTest, ListsAllShardsOnEveryRank) {
  const Shard own = own_shard();
  const ShardedTensor whole = init_from_local_shards({own}, whole_size());
  EXPECT_EQ(whole.size(), whole_size());
  EXPECT_EQ(whole.dim(), 2);
  EXPECT_EQ(whole.numel(), 4 * first_row_of(get_world_size()));
  EXPECT_EQ(whole.dtype(), at::kFloat);
  EXPECT_FALSE(whole.requires_grad());
  EXPECT_TRUE(whole.local_tensor().is_same(own.tensor));
  EXPECT_EQ(whole.metadata().shards_metadata, of_all_ranks([](int rank) {
              return ShardMetadata{.shard_offsets = {first_row_of(rank), 0},
                                   .shard_sizes = {rows_of(rank), 4},
                                   .placement = "rank:" + std::to_string(rank) + "/cpu"};
            }));
}

TEST_F(ShardedTensorMultirankTest, AcceptsAllShardsOnOneRank) {
  std::vector<Shard> shards;
  for (int rank = 0; is_last() && rank < 3; ++rank) {
    shards.push_back(Shard::from_tensor_and_offsets(at::ones({2, 4}, at::kHalf), {2 * rank, 0}));
  }
  const ShardedTensor whole = init_from_local_shards(shards, {6, 4});
  EXPECT_EQ(whole.dtype(), at::kHalf);
  EXPECT_THAT(whole.metadata().shards_metadata, SizeIs(3));
  EXPECT_THAT(whole.local_shards(), SizeIs(is_last() ? 3 : 0));
  EXPECT_EQ(error_of<c10::ValueError>([&] { whole.local_tensor(); }),
            "local_tensor on rank " + std::to_string(get_rank()) + ": there are " +
                (is_last() ? "3" : "0") + " local shards; expected one: see local_shards()");
}

TEST_F(ShardedTensorMultirankTest, AcceptsAGroupOfSomeRanks) {
  const Group group = new_group({{get_world_size() - 1}});
  const Shard shard = Shard::from_tensor_and_offsets(at::ones({2}), {0});
  const auto make = [&] { return init_from_local_shards({shard}, {2}, {.process_group = group}); };
  if (!is_last()) {
    EXPECT_EQ(error_of<c10::ValueError>(make),
              "init_from_local_shards: rank " + std::to_string(get_rank()) +
                  " is not in group 1 of rank " + last() + "; only its ranks may call it");
    return;
  }
  EXPECT_EQ(make().metadata().shards_metadata[0].placement, "rank:" + last() + "/cpu");
  EXPECT_TRUE(make().process_group() == group);
}

TEST_F(ShardedTensorMultirankTest, ReportsAWrongShardOnEveryRank) {
  Shard wrong = own_shard();
  wrong.tensor = at::ones({7, 4});
  EXPECT_THAT(complaint_of_last(wrong),
              HasSubstr("shard 0 of rank " + last() + " has sizes [7, 4]; expected ["));
}
TEST_F(ShardedTensorMultirankTest, ReportsAnUndefinedTensorOnEveryRank) {
  EXPECT_THAT(
      complaint_of_last({at::Tensor(), own_shard().metadata}),
      HasSubstr("shard 0 of rank " + last() + " has an unusable tensor: it is not defined"));
}
TEST_F(ShardedTensorMultirankTest, ReportsATensorWithoutSizesOnEveryRank) {
  const at::Tensor nested = at::_nested_tensor_from_tensor_list({at::ones({1}), at::ones({2})});
  EXPECT_THAT(complaint_of_last({nested, own_shard().metadata}),
              HasSubstr("shard 0 of rank " + last() + " has an unusable tensor: "));
}
TEST_F(ShardedTensorMultirankTest, ReportsASparseTensorOnEveryRank) {
  EXPECT_THAT(complaint_of_last({own_shard().tensor.to_sparse(), own_shard().metadata}),
              HasSubstr("shard 0 of rank " + last() + " is Sparse; expected a dense tensor"));
}
TEST_F(ShardedTensorMultirankTest, ReportsATransposedTensorOnEveryRank) {
  EXPECT_THAT(complaint_of_last({at::ones({4, 5}).t(), own_shard().metadata}),
              HasSubstr("shard 0 of rank " + last() + " is not contiguous"));
}
TEST_F(ShardedTensorMultirankTest, ReportsAnInvalidPlacementOnEveryRank) {
  Shard wrong = own_shard();
  wrong.metadata.placement = "\xff";
  EXPECT_THAT(complaint_of_last(wrong), HasSubstr("expected a rank and a device"));
}
TEST_F(ShardedTensorMultirankTest, ReportsAnotherDtypeOnEveryRank) {
  Shard other = own_shard();
  other.tensor = other.tensor.to(at::kDouble);
  if (get_world_size() == 1) {
    EXPECT_THAT(complaint_of_last(other), IsEmpty());
    return;
  }
  EXPECT_THAT(complaint_of_last(other),
              HasSubstr("has dtype Double; expected Float, the dtype of shard 0 of"));
}
TEST_F(ShardedTensorMultirankTest, ReportsAnotherGlobalSizeOnEveryRank) {
  if (get_world_size() == 1) return;
  EXPECT_THAT(complaint({own_shard()}, is_last() ? std::vector<std::int64_t>{9} : whole_size()),
              HasSubstr("rank " + last() + " gives the global size [9]; expected ["));
}
TEST_F(ShardedTensorMultirankTest, ReportsAGapOnEveryRank) {
  auto size = whole_size();
  ++size[0];
  EXPECT_THAT(complaint({own_shard()}, size), HasSubstr("some are in no shard"));
}

// "st" is this rank's shard, which differs in values and sizes between ranks.
struct WithShardImpl : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  at::Tensor st;
  explicit WithShardImpl(const ShardedTensor& whole) {
    linear = register_module("linear", torch::nn::Linear(3, 1));
    st = register_parameter("st", whole.local_tensor());
  }
  at::Tensor forward(const at::Tensor& x) { return linear(x).sum() + (st * x.sum()).sum(); }
};

TEST_F(ShardedTensorMultirankTest, DdpLeavesAnIgnoredShardAlone) {
  const ShardedTensor whole = init_from_local_shards({own_shard()}, whole_size());
  DistributedDataParallel ddp(std::make_shared<WithShardImpl>(whole),
                              {.parameters_to_ignore = {"st"}});
  ddp(at::full({1, 3}, 1.0 + get_rank())).sum().backward();

  const at::Tensor& st = ddp.module()->st;
  EXPECT_TRUE(st.is_same(whole.local_tensor()));
  EXPECT_TRUE(st.detach().equal(tensor_of(get_rank()))) << st;
  EXPECT_TRUE(st.grad().equal(at::full_like(st, 3.0 * (1 + get_rank())))) << st.grad();
  const auto inputs = of_all_ranks([](int rank) { return 1.0 + rank; });
  const double mean = std::accumulate(inputs.begin(), inputs.end(), 0.0) / get_world_size();
  const at::Tensor reduced = ddp.module()->linear->weight.grad();
  EXPECT_TRUE(reduced.allclose(at::full_like(reduced, mean))) << reduced;
}

}  // namespace
}  // namespace distrun
