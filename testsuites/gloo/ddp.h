// What the tests of DistributedDataParallel have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/process_group.h"
#include "parallel/distributed_data_parallel.h"
#include "testsuites/gloo/ddp_networks.h"
#include "testsuites/gloo/default_group.h"

namespace distrun {

class DistributedDataParallelTest : public DefaultGroupTest {
 protected:
  // The GPUs that are this rank's, of those that there are; with DISTRUN_SHARE_GPUS=1 it may have
  // them together with others.
  static std::vector<c10::Device> gpus(std::size_t count);

  // Where a test without a suffix has its modules, and one with _cuda.
  static c10::Device cpu() { return c10::Device(at::kCPU); }
  static c10::Device gpu() { return gpus(1).front(); }

  // On the device, with its device_ids where that is a GPU.
  template <class Module>
  static DistributedDataParallel<Module> ddp_on(c10::Device device, std::shared_ptr<Module> module,
                                                DdpOptions options = {}) {
    module->to(device);
    if (device.is_cuda()) options.device_ids = {device};
    return DistributedDataParallel<Module>(std::move(module), options);
  }

  // The input that scalars are in the originals.
  static at::Tensor eight(c10::Device device);

  // "error" of the logging data has the text.
  static void expect_error_logged(const c10::DDPLoggingData& data, const std::string& text);
};

}  // namespace distrun
