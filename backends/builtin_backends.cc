#include "backends/fake/fake_backend.h"
#include "backends/gloo/gloo.h"
#include "backends/gloo/gloo_traits.h"
#include "backends/group/registered_backends.h"

namespace distrun::internal {

BuiltinBackends builtin_backends() {
  constexpr auto kCpu = c10::DeviceType::CPU, kCuda = c10::DeviceType::CUDA;
  return {.by_name = {{"fake", {make_fake_backend, {kCpu, kCuda}, fake_traits()}},
                      {"gloo", {make_gloo_backend, {kCpu, kCuda}, gloo_traits()}}},
          .make_checked = make_backend_with_checks};
}

}  // namespace distrun::internal
