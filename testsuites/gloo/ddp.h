// What the tests of DistributedDataParallel have in common.
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
