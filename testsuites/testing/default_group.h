// The fixture of tests that use the group of init_process_group().
#pragma once

#include <cstddef>
#include <vector>

#include <c10/core/Device.h>

#include "distrun/testing.h"

namespace distrun {

// Each test starts with every rank in the default group, "gloo" on the loopback. Tests of NCCL are
// skipped if it is not registered.
class DefaultGroupTest : public DistributedTest {
 protected:
  void SetUp() override;
  // Keeps the group after a failure: destroying it would wait for ranks that still use it.
  void TearDown() override;

  // This rank's GPUs; with DISTRUN_SHARE_GPUS=1 ranks may share them.
  static std::vector<c10::Device> gpus(std::size_t count);

  // The device of tests without the suffix _cuda, and of those with it.
  static c10::Device cpu() { return c10::Device(at::kCPU); }
  static c10::Device gpu() { return gpus(1).front(); }
};

}  // namespace distrun
