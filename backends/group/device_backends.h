// Which backend of a group serves which device, as a user writes it.  Pure, the registry apart.
#pragma once

#include <string>
#include <vector>

#include <c10/core/DeviceType.h>

namespace distrun {

struct DeviceBackend {
  c10::DeviceType device;
  std::string backend;

  friend bool operator==(const DeviceBackend&, const DeviceBackend&) = default;
};

// "gloo": that one for each of its devices.  "cpu:gloo,cuda:fake": as it says.  Upper and lower
// case are the same (torch/distributed/distributed_c10d.py: BackendConfig).
// Throws where a backend or a device is not known, a device is named twice, or a pair is malformed.
std::vector<DeviceBackend> parse_device_backends(const std::string& text);

}  // namespace distrun
