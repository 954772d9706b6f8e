#include "backends/group/rendezvous.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <utility>

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backends/group/init_url.h"
#include "common/text/parse_number.h"

namespace distrun::internal {

namespace {

std::string instead_of(const std::string& variable) {
  if (variable == "RANK") return ", and InitOptions::rank is not given";
  if (variable == "WORLD_SIZE") return ", and InitOptions::world_size is not given";
  return "";
}

std::string variable(const Environment& environment, const std::string& name) {
  const auto value = environment.get(name);
  TORCH_CHECK(value && !value->empty(), "rendezvous: the variable ", name, " is not set",
              instead_of(name), "; was the program started with `distrun launch` or torchrun?");
  return *value;
}

template <class Number>
Number number(const Environment& environment, const std::string& name, Number min, Number max) {
  const auto parsed = parse_number<Number>(variable(environment, name), min, max);
  TORCH_CHECK(parsed.has_value(), "rendezvous: ", name, ": ", parsed.error().message);
  return *parsed;
}

c10::intrusive_ptr<c10d::Store> tcp_store(const std::string& host, std::uint16_t port,
                                          bool is_server, std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = is_server;
  options.multiTenant = true;
  options.waitWorkers = false;  // Gloo's own rendezvous waits for all.
  options.timeout = timeout;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

bool launcher_hosts_store(const Environment& environment) {
  return environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

c10::intrusive_ptr<c10d::Store> store_of_variables(const Environment& environment, int rank,
                                                   std::chrono::milliseconds timeout) {
  const std::string host = variable(environment, "MASTER_ADDR");
  const auto port = number<std::uint16_t>(environment, "MASTER_PORT", 1, 65535);
  const bool is_server = rank == 0 && !launcher_hosts_store(environment);
  return tcp_store(host, port, is_server, timeout);
}

// The launcher hosts a store at its own port only. Python's rank 0 would never open the store at
// another port, and all ranks would wait for it.
c10::intrusive_ptr<c10d::Store> store_of_url(const InitUrl& url, const Environment& environment,
                                             int rank, std::chrono::milliseconds timeout) {
  const bool is_launchers = launcher_hosts_store(environment) &&
                            environment.get("MASTER_PORT") == std::to_string(url.port);
  return tcp_store(url.host, url.port, rank == 0 && !is_launchers, timeout);
}

// Keeps the store until the process ends or uses another file. If each group dropped its store, the
// last rank to leave could remove the file just after another rank has opened it for the next
// group, and both would wait in different files.
c10::intrusive_ptr<c10d::Store> file_store(const std::string& path, int world_size,
                                           std::chrono::milliseconds timeout) {
  static c10::intrusive_ptr<c10d::FileStore> kept;
  static int kept_world_size = 0;
  if (!kept || kept->getPath() != path || kept_world_size != world_size) {
    // FileStore would wait for the folder.
    const auto folder = std::filesystem::path(path).parent_path();
    TORCH_CHECK(std::filesystem::is_directory(folder), "rendezvous: the folder of ", path,
                " does not exist");
    kept = c10::make_intrusive<c10d::FileStore>(path, world_size);
    kept_world_size = world_size;
  }
  kept->setTimeout(timeout);
  return kept;
}

int world_size_in(const Environment& environment, const std::optional<int>& given) {
  if (!given) return number<int>(environment, "WORLD_SIZE", 1, std::numeric_limits<int>::max());
  TORCH_CHECK_VALUE(*given > 0, "rendezvous: the world size is ", *given, "; expected 1 or more");
  return *given;
}

// The number of the program or of the URL.
std::optional<int> given_once(const char* name, const std::optional<int>& of_program,
                              const std::optional<int>& of_url) {
  TORCH_CHECK_VALUE(!of_program || !of_url || *of_program == *of_url,
                    "rendezvous: InitOptions::", name, " is ", of_program.value_or(0), ", and ",
                    name, " is ", of_url.value_or(0), " in the init_method; give one of the two");
  return of_program ? of_program : of_url;
}

}  // namespace

RankInWorld rank_in_world(const Environment& environment, const GivenRank& given) {
  const int world_size = world_size_in(environment, given.world_size);
  if (!given.rank) return {number<int>(environment, "RANK", 0, world_size - 1), world_size};
  TORCH_CHECK_VALUE(0 <= *given.rank && *given.rank < world_size, "rendezvous: the rank is ",
                    *given.rank, "; expected 0 to ", world_size - 1, " (the world size is ",
                    world_size, ")");
  return {*given.rank, world_size};
}

Rendezvous rendezvous(const Environment& environment, const std::string& init_method,
                      std::chrono::milliseconds timeout, const GivenRank& given) {
  constexpr const char* kVariable = "DISTRUN_INIT_METHOD";
  std::string method = init_method, source = "init_method";
  if (method.empty()) {
    method = environment.get(kVariable).value_or("");
    source = kVariable;
  }
  const auto url = parse_init_url(method.empty() ? "env://" : method);
  TORCH_CHECK_VALUE(url.has_value(), "rendezvous: ", source, ": ", url.error().message);
  const auto [rank, world_size] =
      rank_in_world(environment, {given_once("rank", given.rank, url->rank),
                                  given_once("world_size", given.world_size, url->world_size)});
  c10::intrusive_ptr<c10d::Store> store;
  switch (url->scheme) {
    case InitUrl::Scheme::kEnv:
      store = store_of_variables(environment, rank, timeout);
      break;
    case InitUrl::Scheme::kTcp:
      store = store_of_url(*url, environment, rank, timeout);
      break;
    case InitUrl::Scheme::kFile:
      store = file_store(url->path, world_size, timeout);
      break;
  }
  return {std::move(store), rank, world_size};
}

}  // namespace distrun::internal
