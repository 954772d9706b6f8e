#include "distrun/backend_registry.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include <c10/util/Exception.h>

#include "backends/group/registered_backends.h"
#include "common/text/words.h"

namespace distrun {

namespace internal {

namespace {

struct Registry {
  std::mutex mutex;
  // Entries are never removed, so references to them stay valid.
  BuiltinBackends backends = builtin_backends();
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
  const bool is_new =
      registry.backends.by_name
          .try_emplace(name, internal::RegisteredBackend{std::move(maker), std::move(devices)})
          .second;
  TORCH_CHECK_VALUE(is_new, "register_backend: backend '", name, "' is already registered");
}

bool is_backend_available(const std::string& name) {
  internal::Registry& registry = internal::registry();
  const std::lock_guard lock(registry.mutex);
  return registry.backends.by_name.contains(ascii_lower(name));
}

c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const BackendRequest& request) {
  return internal::find_backend(name).make(request);
}

}  // namespace distrun
