#include "backends/group/init_rendezvous.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "backends/group/device_backends.h"
#include "backends/group/registered_backends.h"

namespace distrun::internal {

namespace {

// The traits of each device's backend.
std::vector<const BackendTraits*> traits_in(const std::string& backend) {
  std::vector<const BackendTraits*> all;
  for (const DeviceBackend& one : parse_device_backends(backend)) {
    all.push_back(find_backend(one.backend).traits.get());
  }
  return all;
}

std::string as_text(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "not given";
}

Rendezvous in_given_store(const InitOptions& options, const Environment& environment) {
  TORCH_CHECK_VALUE(options.init_method.empty(),
                    "init_process_group: give a store or an init_method ('", options.init_method,
                    "'), not both");
  TORCH_CHECK_VALUE(options.rank && options.world_size,
                    "init_process_group: a store requires rank and world_size; the rank is ",
                    as_text(options.rank), " and the world size is ", as_text(options.world_size));
  const auto [rank, world_size] = rank_in_world(environment, {options.rank, options.world_size});
  return {options.store, rank, world_size};
}

}  // namespace

std::chrono::milliseconds timeout_of(const InitOptions& options) {
  if (options.timeout) return *options.timeout;
  const auto backends = traits_in(options.backend);
  return backends.size() == 1 ? backends.front()->default_timeout()
                              : BackendTraits().default_timeout();
}

InitRendezvous init_rendezvous(const InitOptions& options, const Environment& environment) {
  const auto traits = traits_in(options.backend);
  const bool is_dry_run = std::none_of(traits.begin(), traits.end(), [](const auto* one) {
    return one->needs_rendezvous();  // Gloo suffices in "cpu:gloo,cuda:fake".
  });
  if (options.store) return {in_given_store(options, environment), is_dry_run};
  const GivenRank given = {options.rank, options.world_size};
  if (!options.init_method.empty() || !is_dry_run) {
    return {rendezvous(environment, options.init_method, timeout_of(options), given), is_dry_run};
  }
  const auto [rank, world_size] = rank_in_world(environment, given);
  return {{traits.front()->store_without_rendezvous(), rank, world_size}, is_dry_run};
}

}  // namespace distrun::internal
