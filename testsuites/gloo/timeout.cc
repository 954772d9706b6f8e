#include <chrono>
#include <string>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distrun/process_group.h"
#include "distrun/testing.h"
#include "distrun/testing/throws.h"
#include "testsuites/gloo/one_rank.h"

namespace distrun {
namespace {

struct TimeoutTest : DistributedTest {};

// A group's timeout applies to its store too. Otherwise the store would wait for its default of
// five minutes, and this test would time out.
DISTRIBUTED_TEST(gloo, TimeoutTest, test_default_store_timeout_gloo, {.ranks = 1}) {
  const std::chrono::milliseconds timeout{500};
  const auto hosted = become_the_only_rank();
  for (const auto& method : {"file://" + shared_path("meet"), std::string("env://")}) {
    SCOPED_TRACE(method);
    init_process_group({.init_method = method, .timeout = timeout});
    const auto store = default_group().getStore();
    EXPECT_EQ(store->getTimeout(), timeout);
    EXPECT_THROWS_WITH(store->get("nonexistent key"), c10::Error, "[Tt]imeout");
    destroy_process_group();
  }
}

}  // namespace
}  // namespace distrun
