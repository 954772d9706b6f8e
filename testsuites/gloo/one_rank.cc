#include "testsuites/gloo/one_rank.h"

#include <cstdlib>
#include <string>

namespace distrun {

namespace {

void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }

}  // namespace

c10::intrusive_ptr<c10d::TCPStore> become_the_only_rank() {
  const std::string address = "127.0.0.1";
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.multiTenant = true;  // Lets init_process_group() share this store in this process.
  options.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>(address, options);
  set("RANK", "0");
  set("WORLD_SIZE", "1");
  set("MASTER_ADDR", address);
  set("MASTER_PORT", std::to_string(store->getPort()));
  set("GLOO_SOCKET_IFNAME", "lo");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  return store;
}

}  // namespace distrun
