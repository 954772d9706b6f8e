#include "parallel/hooks/seed_stream.h"

#include <vector>

#include <c10/util/Exception.h>
#include <gmock/gmock.h>

namespace distrun::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::uint64_t> first_numbers(SeedStream stream, int count) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) numbers.push_back(stream.next());
  return numbers;
}

TEST(SeedStreamTest, ReturnsTheNumbersOfNumPy) {
  EXPECT_THAT(first_numbers(SeedStream(7), 6),
              ElementsAre(327741615, 976413892, 128500249, 296233462, 809211459, 980209875));
}

TEST(SeedStreamTest, RejectsNumbersAboveTheRangeAsNumPyDoes) {
  SeedStream stream(0);
  std::uint64_t sum = 0;
  for (int i = 0; i < 1000; ++i) sum += stream.next();
  EXPECT_EQ(sum, 518946624195);
}

TEST(SeedStreamTest, ContinuesAtTheSavedPlace) {
  SeedStream stream(3);
  stream.next();
  SeedStream other(4);
  other.load(stream.saved());
  EXPECT_EQ(first_numbers(other, 5), first_numbers(stream, 5));
}

TEST(SeedStreamTest, RejectsATextThatIsNotAState) {
  try {
    SeedStream(0).load("not a state");
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("PowerSGDState: the archive has no state of a random generator"));
  }
}

}  // namespace
}  // namespace distrun::internal
