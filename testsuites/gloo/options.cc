// Options of a group.
#include <chrono>

#include <ATen/ATen.h>

#include "distrun/testing/tensors.h"
#include "testsuites/gloo/collectives.h"
#include "testsuites/gloo/process_group_gloo_fixture.h"

namespace distrun {
namespace {

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_multi_device_constructor,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto two_devices = options();
  two_devices->timeout = std::chrono::seconds(5);
  two_devices->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(interface()));
  const auto group = create_gloo(two_devices);

  // Two collectives for each device.
  std::vector<WorkPtr> works;
  works.reserve(4);
  for (int i = 0; i < 4; ++i) works.push_back(allreduce(*group, {at::ones({i + 1})}));
  for (int i = 0; i < 4; ++i) {
    EXPECT_TENSORS_EQUAL(result_of(works[i])[0], at::full({i + 1}, float(world_size())));
  }
}

DISTRIBUTED_TEST(gloo, ProcessGroupGlooTest, test_set_gloo_pg_timeout,
                 {.ranks = 4, .backends = {"gloo", "shm"}}) {
  const auto group = create_gloo();
  const auto work = allreduce(*group, {at::rand({10})});
  EXPECT_EQ(group->getBackendOptions()->timeout, std::chrono::seconds(50));
  group->setTimeout(std::chrono::seconds(23));
  EXPECT_EQ(group->getBackendOptions()->timeout, std::chrono::seconds(23));
  EXPECT_TRUE(work->wait());
}

}  // namespace
}  // namespace distrun
