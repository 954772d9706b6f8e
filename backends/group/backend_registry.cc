#include "distrun/backend_registry.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include <c10/util/Exception.h>

#include "backends/fake/fake_backend.h"
#include "backends/gloo/gloo.h"

namespace distrun {

namespace {

struct Registry {
  std::mutex mutex;
  // Entries are never removed: references to them stay good.
  std::map<std::string, RegisteredBackend> backends = {
      {"fake", {internal::make_fake_backend, {c10::DeviceType::CPU, c10::DeviceType::CUDA}}},
      {"gloo", {make_gloo_backend, {c10::DeviceType::CPU, c10::DeviceType::CUDA}}}};
};

Registry& registry() {
  static auto* registry = new Registry();
  return *registry;
}

}  // namespace

void register_backend(const std::string& name, BackendMaker maker,
                      std::vector<c10::DeviceType> devices) {
  const bool is_lower = std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || c == ':' || c == ',';
  });
  TORCH_CHECK_VALUE(!name.empty() && is_lower, "register_backend: '", name,
                    "' is no name for a backend: it has to be lower case, without ':' and ','");
  TORCH_CHECK_VALUE(maker, "register_backend: '", name, "' has no maker");
  TORCH_CHECK_VALUE(!devices.empty(), "register_backend: '", name, "' has no device");
  const std::lock_guard lock(registry().mutex);
  const bool is_new =
      registry()
          .backends.try_emplace(name, RegisteredBackend{std::move(maker), std::move(devices)})
          .second;
  TORCH_CHECK_VALUE(is_new, "register_backend: there is a backend '", name, "' already");
}

const RegisteredBackend& find_backend(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().backends.find(name);
  if (found != registry().backends.end()) return found->second;
  std::string known;
  for (const auto& [each, backend] : registry().backends) {
    known += (known.empty() ? "" : ", ") + each;
  }
  TORCH_CHECK_VALUE(false, "unknown backend '", name, "'; known: ", known);
}

}  // namespace distrun
