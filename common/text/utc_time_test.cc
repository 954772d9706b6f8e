#include "common/text/utc_time.h"

#include <gtest/gtest.h>

namespace distrun {
namespace {

TEST(UtcTimeTest, HasMillisecondsAndTheZone) {
  using std::chrono::microseconds;
  const auto at = [](microseconds since_1970) {
    return rfc3339(std::chrono::system_clock::time_point(since_1970));
  };
  EXPECT_EQ(at(microseconds(0)), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(at(microseconds(1'735'689'600'007'999)), "2025-01-01T00:00:00.007Z");
}

}  // namespace
}  // namespace distrun
