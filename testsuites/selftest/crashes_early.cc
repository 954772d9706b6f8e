// A test program that crashes before main(): a static initialiser reads from a null pointer.
#include "distrun/testing.h"

namespace early {

int* volatile nothing = nullptr;

[[gnu::noinline]] int read_it() {
  int value = *nothing;
  return value + 1;
}

const int kValue = read_it();

}  // namespace early

namespace distrun {
namespace {

class Early : public DistributedTest {};

DISTRIBUTED_TEST(selftest, Early, test_is_never_listed, {.ranks = 1}) {
  EXPECT_GT(early::kValue, 0);
}

}  // namespace
}  // namespace distrun
