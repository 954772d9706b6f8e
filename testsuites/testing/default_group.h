// What tests have in common that run in the group of init_process_group().
#pragma once

#include <cstddef>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/testing.h"

namespace distrun {

// Every rank is in the default group, "gloo" on the loopback, when the test begins.  A test of
// NCCL is skipped where that is not registered.
class DefaultGroupTest : public DistributedTest {
 protected:
  void SetUp() override;
  // Where the test has failed, the group stays: a rank that still waits in it would hold this one.
  void TearDown() override;

  // The GPUs that are this rank's, of those that there are; with DISTRUN_SHARE_GPUS=1 it may have
  // them together with others.
  static std::vector<c10::Device> gpus(std::size_t count);

  // Where a test without a suffix has its tensors, and one with _cuda.
  static c10::Device cpu() { return c10::Device(at::kCPU); }
  static c10::Device gpu() { return gpus(1).front(); }
};

}  // namespace distrun
