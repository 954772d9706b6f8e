#include "parallel/pipeline/microbatches.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;

std::vector<std::int64_t> sizes_of(const TensorList& parts) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& one : parts) sizes.push_back(one.size(0));
  return sizes;
}

std::string split_error(const at::Tensor& batch) {
  try {
    split_batch("target", batch, 4);
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(MicrobatchesTest, TheFirstPartsOfAnUnevenBatchAreLarger) {
  EXPECT_THAT(sizes_of(split_batch("args", at::arange(12), 4)), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(sizes_of(split_batch("args", at::arange(10), 4)), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(sizes_of(split_batch("args", at::arange(4), 4)), ElementsAre(1, 1, 1, 1));
}

TEST(MicrobatchesTest, MergingRestoresTheBatch) {
  const TensorList batches = {at::arange(20).view({10, 2}), at::arange(10)};
  const TensorList merged = merge_batches(split_batches("args", batches, 3));
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_TRUE(merged[0].equal(batches[0]));
  EXPECT_TRUE(merged[1].equal(batches[1]));
}

TEST(MicrobatchesTest, NumbersAreStacked) {
  const at::Tensor one = at::ones({});
  EXPECT_THAT(sizes_of(merge_batches({{one}, {one}})), ElementsAre(2));
  EXPECT_TRUE(merge_batches({}).empty());
}

TEST(MicrobatchesTest, RejectsABatchThatIsTooSmall) {
  EXPECT_EQ(split_error(at::ones({3})),
            "target has size 3 along dimension 0; expected at least 4, one for each micro-batch");
  EXPECT_EQ(split_error(at::ones({})),
            "target has no dimension; expected a batch along dimension 0");
  EXPECT_EQ(split_error(at::Tensor()), "target is not defined");
}

}  // namespace
}  // namespace distrun::internal
