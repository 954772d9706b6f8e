// Common code of the tests of DistributedDataParallel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "distrun/distributed_data_parallel.h"
#include "distrun/process_group.h"
#include "testsuites/gloo/ddp_networks.h"
#include "testsuites/testing/default_group.h"

namespace distrun {

class DistributedDataParallelTest : public DefaultGroupTest {
 protected:
  // Moves the module to the device; sets device_ids for a GPU.
  template <class Module>
  static DistributedDataParallel<Module> ddp_on(c10::Device device, std::shared_ptr<Module> module,
                                                DdpOptions options = {}) {
    module->to(device);
    if (device.is_cuda()) options.device_ids = {device};
    return DistributedDataParallel<Module>(std::move(module), options);
  }

  // The input for the originals' scalar.
  static at::Tensor eight(c10::Device device);

  // Expects the text in the logging data's "error".
  static void expect_error_logged(const c10::DDPLoggingData& data, const std::string& text);
};

}  // namespace distrun
