#include "backends/auto_backend.h"
#include "backends/fake/fake_backend.h"
#include "backends/gloo/gloo.h"
#include "backends/gloo/gloo_traits.h"
#include "backends/group/registered_backends.h"
#include "backends/hosts/hosts.h"
#include "backends/nccl/nccl.h"

namespace distrun::internal {

BuiltinBackends builtin_backends() {
  constexpr auto kCpu = c10::DeviceType::CPU, kCuda = c10::DeviceType::CUDA;
  BuiltinBackends all = {.by_name = {{"auto", {make_auto_backend, {kCpu}}},
                                     {"fake", {make_fake_backend, {kCpu, kCuda}, fake_traits()}},
                                     {"gloo", {make_gloo_backend, {kCpu, kCuda}, gloo_traits()}},
                                     {"shm", {make_shm_backend, {kCpu}, shm_traits()}}},
                         .missing = {},
                         .make_checked = make_backend_with_checks};
  if (auto nccl = nccl_backend()) {
    all.by_name.emplace("nccl", std::move(*nccl));
  } else {
    all.missing.emplace("nccl", why_no_nccl());
  }
  return all;
}

}  // namespace distrun::internal
