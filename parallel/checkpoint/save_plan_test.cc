#include "parallel/checkpoint/save_plan.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ranks = std::vector<std::vector<PartFacts>>;

PartFacts rows(const std::string& name, std::int64_t first, std::int64_t count,
               std::int64_t all = 4) {
  return {.name = name, .dtype = at::kFloat, .sizes = {all, 2}, .box = {{first, 0}, {count, 2}}};
}

std::string error_of(const Ranks& all) {
  try {
    parts_to_write(all, 0, {4, 7});  // Two ranks of a larger run.
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(SavePlanTest, EachRankWritesItsOwnParts) {
  const Ranks all = {{rows("a", 0, 1), rows("b", 0, 4)}, {rows("a", 1, 3)}};
  EXPECT_THAT(parts_to_write(all, 0, {0, 1}), ElementsAre(0, 1));
  EXPECT_THAT(parts_to_write(all, 1, {0, 1}), ElementsAre(0));
}

TEST(SavePlanTest, RanksShareTheWorkForTensorsThatAllHave) {
  const std::vector<PartFacts> one = {rows("a", 0, 4), rows("b", 0, 4), rows("c", 0, 4)};
  EXPECT_THAT(parts_to_write({one, one}, 0, {0, 1}), ElementsAre(0, 2));
  EXPECT_THAT(parts_to_write({one, one}, 1, {0, 1}), ElementsAre(1));
  EXPECT_THAT(parts_to_write({one, one, one, one}, 3, {0, 1, 2, 3}), IsEmpty());
}

TEST(SavePlanTest, FactsArriveAsTheyWereSent) {
  const std::vector<PartFacts> sent = {
      rows("net.weight", 1, 2), {.name = "step", .dtype = at::kLong, .sizes = {}, .box = {}}};
  const auto got = parts_in(text_of(sent));
  ASSERT_EQ(got.size(), 2);
  EXPECT_EQ(got[0].name, "net.weight");
  EXPECT_EQ(got[0].box, sent[0].box);
  EXPECT_EQ(got[1].dtype, at::kLong);
  EXPECT_EQ(got[1].sizes, sent[1].sizes);
}

TEST(SavePlanTest, NamesRanksThatDisagreeAndMissingParts) {
  EXPECT_EQ(error_of({{rows("a", 0, 4)}, {rows("a", 0, 4, 5)}}),
            "save_checkpoint: 'a' has sizes [4, 2] on rank 4 and [5, 2] on rank 7; expected the "
            "same sizes");
  PartFacts half = rows("a", 0, 4);
  half.dtype = at::kHalf;
  EXPECT_EQ(error_of({{rows("a", 0, 4)}, {half}}),
            "save_checkpoint: 'a' has dtype Float on rank 4 and Half on rank 7; expected the same "
            "dtype");
  EXPECT_EQ(error_of({{rows("a", 0, 3)}, {rows("a", 2, 2)}}),
            "save_checkpoint: 'a' has parts that overlap, on rank 4 at [0, 0] and on rank 7 at "
            "[2, 0]");
  EXPECT_EQ(error_of({{rows("a", 0, 1)}, {rows("a", 2, 2)}}),
            "save_checkpoint: the ranks have 6 of the 8 elements of 'a'; every rank that has a "
            "part of it must add the part");
}

}  // namespace
}  // namespace distrun::internal
