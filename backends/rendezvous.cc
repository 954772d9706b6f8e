#include "backends/rendezvous.h"

#include <cstdint>
#include <limits>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/parse_number.h"

namespace distrun {

namespace {

std::string variable(const Environment& environment, const std::string& name) {
  const auto value = environment.get(name);
  TORCH_CHECK(value && !value->empty(), "rendezvous: the variable ", name,
              " is not set; was the program started with `distrun launch` or torchrun?");
  return *value;
}

template <class Number>
Number number(const Environment& environment, const std::string& name, Number min, Number max) {
  const auto parsed = parse_number<Number>(variable(environment, name), min, max);
  TORCH_CHECK(parsed.has_value(), "rendezvous: ", name, ": ", parsed.error().message);
  return *parsed;
}

}  // namespace

Rendezvous rendezvous_by_environment(const Environment& environment,
                                     std::chrono::milliseconds timeout) {
  const int world_size = number<int>(environment, "WORLD_SIZE", 1, std::numeric_limits<int>::max());
  const int rank = number<int>(environment, "RANK", 0, world_size - 1);
  const std::string host = variable(environment, "MASTER_ADDR");
  const auto port = number<std::uint16_t>(environment, "MASTER_PORT", 1, 65535);

  const bool launcher_hosts = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True";
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = !launcher_hosts && rank == 0;
  options.multiTenant = true;
  options.waitWorkers = false;  // Gloo's own rendezvous waits for all.
  options.timeout = timeout;
  return {c10::make_intrusive<c10d::TCPStore>(host, options), rank, world_size};
}

}  // namespace distrun
