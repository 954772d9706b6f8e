#include "backends/group/device_backends.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include "backends/group/registered_backends.h"
#include "common/text/words.h"

namespace distrun {

namespace {

c10::DeviceType device_of(const std::string& name, const std::string& text) {
  try {
    const c10::Device device(name);
    if (!device.has_index()) return device.type();
  } catch (const c10::Error&) {
    // Reported below, with the whole text.
  }
  TORCH_CHECK_VALUE(false, "'", name, "' in the backend '", text,
                    "' is not a device type; use cpu, cuda, …");
}

DeviceBackend parse_pair(const std::string& pair, const std::string& text) {
  const auto colon = pair.find(':');
  const bool is_pair = colon != std::string::npos && pair.find(':', colon + 1) == std::string::npos;
  TORCH_CHECK_VALUE(is_pair && !trimmed(std::string_view(pair).substr(colon + 1)).empty(), "'",
                    pair, "' in the backend '", text,
                    "' is not DEVICE:BACKEND, such as cpu:gloo,cuda:fake");
  const std::string device(trimmed(std::string_view(pair).substr(0, colon)));
  return {device_of(device, text), std::string(trimmed(std::string_view(pair).substr(colon + 1)))};
}

}  // namespace

std::vector<DeviceBackend> parse_pairs(const std::string& text) {
  const std::string all = ascii_lower(text);
  std::vector<DeviceBackend> found;
  // getline() would drop an empty last pair.
  std::istringstream pairs(all + (all.ends_with(',') ? " " : ""));
  for (std::string pair; std::getline(pairs, pair, ',');) {
    const DeviceBackend next = parse_pair(pair, text);
    const bool is_new = std::none_of(found.begin(), found.end(), [&](const DeviceBackend& one) {
      return one.device == next.device;
    });
    TORCH_CHECK_VALUE(is_new, "the backend '", text, "' names ",
                      c10::DeviceTypeName(next.device, /*lower_case=*/true), " twice");
    found.push_back(next);
  }
  return found;
}

std::vector<DeviceBackend> parse_device_backends(const std::string& text) {
  std::vector<DeviceBackend> found;
  if (text.find(':') != std::string::npos) {
    found = parse_pairs(text);
    for (const DeviceBackend& one : found) internal::find_backend(one.backend);
    return found;
  }
  const std::string name = ascii_lower(text);
  for (const auto device : internal::find_backend(name).devices) found.push_back({device, name});
  return found;
}

}  // namespace distrun
