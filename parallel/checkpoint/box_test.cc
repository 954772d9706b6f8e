#include "parallel/checkpoint/box.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Sizes = std::vector<std::int64_t>;

TEST(BoxTest, ARangeIsTheRestOfARowWholeRowsAndTheBeginningOfOne) {
  EXPECT_THAT(boxes_of_range({4, 3}, 2, 6),
              ElementsAre(Box{{0, 2}, {1, 1}}, Box{{1, 0}, {1, 3}}, Box{{2, 0}, {1, 2}}));
  EXPECT_THAT(boxes_of_range({4, 3}, 3, 6), ElementsAre(Box{{1, 0}, {2, 3}}));
  EXPECT_THAT(boxes_of_range({4, 3}, 4, 1), ElementsAre(Box{{1, 1}, {1, 1}}));
  EXPECT_THAT(boxes_of_range({7}, 2, 3), ElementsAre(Box{{2}, {3}}));
  EXPECT_THAT(boxes_of_range({}, 0, 1), ElementsAre(Box{}));
  EXPECT_THAT(boxes_of_range({4, 3}, 5, 0), IsEmpty());
  EXPECT_THAT(boxes_of_range({0, 3}, 0, 0), IsEmpty());
}

// Every range of a tensor with three dimensions: its boxes, one after the other, are its elements.
TEST(BoxTest, BoxesOfARangeHaveItsElementsInOrder) {
  const Sizes sizes = {3, 2, 4};
  const at::Tensor tensor = at::arange(24).view(sizes);
  for (std::int64_t first = 0; first < 24; ++first) {
    for (std::int64_t count = 1; first + count <= 24; ++count) {
      std::vector<at::Tensor> parts;
      for (const Box& box : boxes_of_range(sizes, first, count)) {
        at::Tensor part = tensor;
        for (std::int64_t d = 0; d < 3; ++d) {
          const auto at = static_cast<std::size_t>(d);
          part = part.narrow(d, box.offsets[at], box.sizes[at]);
        }
        EXPECT_TRUE(part.is_contiguous());
        parts.push_back(part.flatten());
      }
      EXPECT_LE(parts.size(), 5);
      EXPECT_TRUE(at::cat(parts).equal(at::arange(first, first + count))) << first << " " << count;
    }
  }
}

TEST(BoxTest, IntersectionHasTheElementsOfBoth) {
  EXPECT_EQ(intersection({{0, 2}, {4, 2}}, {{2, 0}, {5, 3}}), (Box{{2, 2}, {2, 1}}));
  EXPECT_EQ(intersection({{0}, {2}}, {{2}, {2}}), std::nullopt);
  EXPECT_EQ(intersection({}, {}), Box());
}

}  // namespace
}  // namespace distrun::internal
