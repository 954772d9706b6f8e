// Parses the text of a group's backends by device.
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

// Reads "cpu:gloo,cuda:fake", a list of pairs. Case does not matter. The backends need not be
// known. Throws c10::ValueError if a device is unknown or occurs twice, or a pair is malformed.
std::vector<DeviceBackend> parse_pairs(const std::string& text);

// "gloo" means all devices of gloo; "cpu:gloo,cuda:fake" one backend each. Case does not matter.
// Throws if a backend or a device is unknown, a device occurs twice, or a pair is malformed.
// PyTorch source: BackendConfig of torch/distributed/distributed_c10d.py.
std::vector<DeviceBackend> parse_device_backends(const std::string& text);

}  // namespace distrun
