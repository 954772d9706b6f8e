// What is registered, for the code that makes groups and runs collectives; users register by
// distrun/backend_registry.h.
//
//     const RegisteredBackend& gloo = find_backend("gloo");
//     gloo.traits->check_options(options);
//
// Threads: any.
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

// Throws c10::ValueError if none has that name; the text lists those that exist.  The result stays
// valid.
const RegisteredBackend& find_backend(const std::string& name);

// By getBackendName(): a wrapper has the traits of what it wraps.
const BackendTraits& traits_of(const c10d::Backend& backend);

// BackendTraits::is_error(), is_timeout() and lost_peer() of any backend: a wrapper's errors may be
// another's.
bool is_backend_error(std::string_view text);
bool is_backend_timeout(std::string_view text);
std::optional<int> lost_peer(c10d::Backend& backend, const std::string& error);

// Wraps the backend: before each call it checks that all ranks make the same one.
c10::intrusive_ptr<c10d::Backend> make_checked_backend(
    const c10::intrusive_ptr<c10d::Backend>& backend, const BackendRequest& request);

// The backends that distrun comes with.
struct BuiltinBackends {
  std::map<std::string, RegisteredBackend> by_name;
  std::function<c10::intrusive_ptr<c10d::Backend>(const c10::intrusive_ptr<c10d::Backend>&,
                                                  const BackendRequest&)>
      make_checked;
};

// The seam between this folder and those of the backends, which are above it.  It is defined in
// backends/builtin_backends.cc, and the registry calls it when it is first used.  A static
// initialiser in each backend's folder would not do: a linker takes from a static library only
// files that something refers to.
BuiltinBackends builtin_backends();

}  // namespace distrun::internal
