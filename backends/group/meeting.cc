#include "backends/group/meeting.h"

#include <algorithm>

#include <c10/util/Exception.h>

#include "backends/group/device_backends.h"
#include "distrun/fake.h"

namespace distrun::internal {

namespace {

// "cpu:gloo,cuda:fake" is not: the ranks meet for Gloo.
bool is_fake(const std::string& backend) {
  const auto all = parse_device_backends(backend);
  return std::all_of(all.begin(), all.end(),
                     [](const DeviceBackend& one) { return one.backend == "fake"; });
}

Rendezvous meet_in_store(const InitOptions& options, const Environment& environment) {
  TORCH_CHECK_VALUE(options.init_method.empty(),
                    "init_process_group: there are a store and the "
                    "init_method '",
                    options.init_method, "'; expected one of them");
  TORCH_CHECK_VALUE(options.rank != -1 && options.world_size != -1,
                    "init_process_group: there is a store, and the rank is ", options.rank,
                    " and the world size ", options.world_size, "; expected both to be given");
  const auto [rank, world_size] = place_in(environment, {options.rank, options.world_size});
  return {options.store, rank, world_size};
}

Rendezvous meet_anywhere(const InitOptions& options, const Environment& environment,
                         bool is_dry_run) {
  if (options.store) return meet_in_store(options, environment);
  const WorldPlace said = {options.rank, options.world_size};
  if (!options.init_method.empty() || !is_dry_run) {
    return rendezvous(environment, options.init_method, options.timeout, said);
  }
  const auto [rank, world_size] = place_in(environment, said);
  return {c10::make_intrusive<FakeStore>(), rank, world_size};
}

}  // namespace

Meeting meet(const InitOptions& options, const Environment& environment) {
  const bool is_dry_run = is_fake(options.backend);
  return {meet_anywhere(options, environment, is_dry_run), is_dry_run};
}

}  // namespace distrun::internal
