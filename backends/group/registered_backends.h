// The registered backends, for code that creates groups and runs collectives.
// distrun/backend_registry.h is for users.
//
//     const RegisteredBackend& gloo = find_backend("gloo");
//     gloo.traits->check_options(options);
//
// Thread safety: any thread may call these functions.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <c10/core/DeviceType.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "backends/group/backend_traits.h"
#include "distrun/backend_registry.h"

namespace distrun::internal {

struct RegisteredBackend {
  BackendMaker make;
  std::vector<c10::DeviceType> devices;
  std::shared_ptr<const BackendTraits> traits = std::make_shared<BackendTraits>();
};

// Throws c10::ValueError for an unknown name, and lists the known ones. The result stays valid.
const RegisteredBackend& find_backend(const std::string& name);

// Looked up by getBackendName(), so a wrapper has the traits of the wrapped backend.
const BackendTraits& traits_of(const c10d::Backend& backend);

// BackendTraits::is_error(), is_timeout() and lost_peer() of any backend, because a wrapper can
// throw another backend's errors.
bool is_backend_error(std::string_view text);
bool is_backend_timeout(std::string_view text);
std::optional<int> lost_peer(c10d::Backend& backend, const std::string& error);

// Wraps the backend to check before each call that all ranks make the same call.
c10::intrusive_ptr<c10d::Backend> make_checked_backend(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request);

// distrun's own backends.
struct BuiltinBackends {
  std::map<std::string, RegisteredBackend> by_name;
  std::map<std::string, std::string> missing;  // Why this build lacks one, by its name.
  std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Backend>&,
                                                  const BackendRequest&)>
      make_checked;
};

// Defined in backends/builtin_backends.cc, because the backends' folders are above this one. The
// registry calls it on first use. Static initialisers would not work: a linker drops unreferenced
// files of a static library.
BuiltinBackends builtin_backends();

}  // namespace distrun::internal
