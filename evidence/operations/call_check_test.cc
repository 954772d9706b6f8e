#include "evidence/operations/call_check.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

Operation call(const std::string& op, const std::string& dtype = "Float",
               std::uint64_t elements = 8) {
  return {.op = op,
          .dtype = dtype,
          .sizes = "[" + std::to_string(elements) + "]",
          .elements = elements,
          .group = "0",
          .sequence = 4};
}

std::string text(const std::vector<Operation>& calls) {
  CollectiveOfRanks all;
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    all.by_rank[static_cast<int>(rank)] = calls[rank];
  }
  const auto found = call_difference_in(all);
  return found ? text_of(*found) : "";
}

TEST(CallCheckTest, EqualCallsAgree) {
  EXPECT_EQ(text({call("all_reduce"), call("all_reduce")}), "");
  EXPECT_EQ(text({call("barrier", ""), call("barrier", "")}), "");
}

// The same number of bytes: Gloo does not notice.
TEST(CallCheckTest, DtypesDiffer) {
  EXPECT_EQ(text({call("all_reduce"), call("all_reduce", "Double", 4)}),
            "rank 0 called all_reduce (Float [8]) as number 4 of group 0, rank 1 called all_reduce "
            "(Double [4])");
}

TEST(CallCheckTest, TheOddRankIsFirst) {
  EXPECT_EQ(text({call("broadcast"), call("broadcast"), call("broadcast", "Float", 4)}),
            "rank 2 called broadcast (Float [4]) as number 4 of group 0, ranks 0, 1 called "
            "broadcast (Float [8])");
}

TEST(CallCheckTest, OtherCollectivesDiffer) {
  EXPECT_EQ(text({call("all_reduce"), call("barrier", "")}),
            "rank 0 called all_reduce (Float [8]) as number 4 of group 0, rank 1 called barrier");
}

TEST(CallCheckTest, ShapesWithTheSameNumberOfElementsAgree) {
  Operation other = call("all_reduce");
  other.sizes = "[2, 4]";
  EXPECT_EQ(text({call("all_reduce"), other}), "");
}

TEST(CallCheckTest, LongNamesThatAreCutInRecordsAreCompared) {
  const std::string op = "all_gather_into_tensor_coalesced";
  for (const std::string& name : {op, op.substr(0, 24)}) {
    EXPECT_EQ(text({call(name), call(name)}), "");
    EXPECT_EQ(text({call(name), call(name, "Double")}),
              "rank 0 called " + name + " (Float [8]) as number 4 of group 0, rank 1 called " +
                  name + " (Double [8])");
    EXPECT_NE(text({call(name), call(name, "Float", 4)}), "");
  }
  EXPECT_NE(text({call("reduce_scatter_tensor_co"), call("reduce_scatter_tensor_co", "Half")}), "");
}

TEST(CallCheckTest, WhatRanksMayPassDifferentlyIsNotCompared) {
  EXPECT_EQ(text({call("scatter"), call("scatter", "", 2)}), "");
  EXPECT_EQ(text({call("all_to_all", "Float", 1), call("all_to_all")}), "");
  EXPECT_EQ(text({call("gather", "Float", 1), call("gather")}), "");
  EXPECT_EQ(text({call("all_gather", "Float", 1), call("all_gather")}), "");
  EXPECT_NE(text({call("all_gather", "Double"), call("all_gather")}), "");
}

}  // namespace
}  // namespace distrun
