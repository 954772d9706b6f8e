#include "distrun/backend_registry.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <c10/util/Exception.h>

#include "backends/group/device_backends.h"
#include "backends/group/registered_backends.h"
#include "common/text/words.h"

namespace distrun {

namespace internal {

namespace {

struct Registry {
  std::mutex mutex;
  // Entries are never removed, so references to them stay valid.
  BuiltinBackends backends = builtin_backends();
  std::map<c10::DeviceType, std::string> default_by_device = {{c10::DeviceType::CPU, "gloo"},
                                                              {c10::DeviceType::CUDA, "nccl"}};
};

Registry& registry() {
  static auto* registry = new Registry();
  return *registry;
}

// Returns the first true answer of `ask` among the backends' traits.
template <class Ask>
auto first_answer(const Ask& ask) -> decltype(ask(std::declval<const BackendTraits&>())) {
  // Asks without the lock, because an answer may take time.
  std::vector<std::shared_ptr<const BackendTraits>> all;
  {
    const std::lock_guard lock(registry().mutex);
    for (const auto& [name, backend] : registry().backends.by_name) all.push_back(backend.traits);
  }
  for (const auto& traits : all) {
    if (const auto answer = ask(*traits)) return answer;
  }
  return {};
}

}  // namespace

c10::intrusive_ptr<c10d::Store> BackendTraits::store_without_rendezvous() const { return {}; }

const RegisteredBackend& find_backend(const std::string& name) {
  const std::lock_guard lock(registry().mutex);
  const auto& backends = registry().backends.by_name;
  const auto found = backends.find(ascii_lower(name));
  if (found != backends.end()) return found->second;
  std::string known;
  for (const auto& [each, backend] : backends) known += (known.empty() ? "" : ", ") + each;
  std::string hint;
  // c10d knows these names, but few builds of LibTorch contain the backends.
  const std::set<std::string> c10ds = {"mpi", "ucc", "xccl"};
  const auto why = registry().backends.missing.find(ascii_lower(name));
  if (why != registry().backends.missing.end()) {
    hint = "; " + why->second;
  } else if (c10ds.contains(ascii_lower(name))) {
    hint = "; " + name + " is not built in; add it with register_backend()";
  }
  TORCH_CHECK_VALUE(false, "unknown backend '", name, "'; known: ", known, hint);
}

const BackendTraits& traits_of(const c10d::Backend& backend) {
  static const auto* const unknown = new BackendTraits();
  const std::string name = backend.getBackendName();
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().backends.by_name.find(name);
  return found == registry().backends.by_name.end() ? *unknown : *found->second.traits;
}

bool is_backend_error(std::string_view text) {
  return first_answer([&](const BackendTraits& traits) { return traits.is_error(text); });
}

bool is_backend_timeout(std::string_view text) {
  return first_answer([&](const BackendTraits& traits) { return traits.is_timeout(text); });
}

std::optional<int> lost_peer(c10d::Backend& backend, const std::string& error) {
  return first_answer(
      [&](const BackendTraits& traits) { return traits.lost_peer(backend, error); });
}

c10::intrusive_ptr<c10d::Backend> make_checked_backend(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request) {
  return registry().backends.make_checked(backend, request);
}

}  // namespace internal

void register_backend(const std::string& name, BackendMaker maker,
                      std::vector<c10::DeviceType> devices) {
  const bool is_lower = std::none_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || c == ':' || c == ',';
  });
  TORCH_CHECK_VALUE(!name.empty() && is_lower, "register_backend: '", name,
                    "' is not a valid backend name; use lower case without ':' and ','");
  TORCH_CHECK_VALUE(maker, "register_backend: '", name, "' has no maker");
  TORCH_CHECK_VALUE(!devices.empty(), "register_backend: '", name, "' has no device");
  internal::Registry& registry = internal::registry();
  const std::lock_guard lock(registry.mutex);
  const auto [entry, is_new] = registry.backends.by_name.try_emplace(
      name, internal::RegisteredBackend{std::move(maker), std::move(devices)});
  TORCH_CHECK_VALUE(is_new, "register_backend: backend '", name, "' is already registered");
  for (const c10::DeviceType device : entry->second.devices) {
    registry.default_by_device.try_emplace(device, name);
  }
}

bool is_backend_available(const std::string& name) {
  std::vector<DeviceBackend> all = {{c10::DeviceType::CPU, ascii_lower(name)}};
  if (name.find(':') != std::string::npos) all = parse_pairs(name);
  internal::Registry& registry = internal::registry();
  const std::lock_guard lock(registry.mutex);
  return std::all_of(all.begin(), all.end(), [&](const DeviceBackend& one) {
    return registry.backends.by_name.contains(one.backend);
  });
}

bool is_gloo_available() { return is_backend_available("gloo"); }

bool is_nccl_available() { return is_backend_available("nccl"); }

bool is_mpi_available() { return is_backend_available("mpi"); }

bool is_ucc_available() { return is_backend_available("ucc"); }

bool is_xccl_available() { return is_backend_available("xccl"); }

std::string get_default_backend_for_device(c10::DeviceType device) {
  internal::Registry& registry = internal::registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = registry.default_by_device.find(device);
  TORCH_CHECK_VALUE(found != registry.default_by_device.end(),
                    "get_default_backend_for_device: no backend is known for ", device,
                    "; add one with register_backend()");
  return found->second;
}

c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const BackendRequest& request) {
  return internal::find_backend(name).make(request);
}

}  // namespace distrun
