#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/text/parse_number.h"
#include "distrun/testing.h"
#include "testsuites/harness/protocol/rank_variables.h"
#include "testsuites/testing/run_rank.h"

namespace distrun {

namespace {

std::atomic<int> made{0};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw std::runtime_error(std::string("the variable ") + name +
                             " is not set: run this test with `distrun test`");
  }
  return value;
}

int number(const char* name) {
  const auto value = parse_number<int>(variable(name));
  if (!value) throw std::runtime_error(std::string(name) + " is not a number");
  return *value;
}

// Where ranks of several nodes meet. Opened before the test, which may change the variables.
c10::intrusive_ptr<c10d::Store> store_of_nodes() {
  static const auto store = [] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(number("MASTER_PORT"));
    options.waitWorkers = false;
    return c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), options);
  }();
  return store;
}

}  // namespace

int internal::count_assertion() {
  ++made;
  return 0;
}

int assertions_made() { return made; }

int DistributedTest::rank() {
  static const int value = number("RANK");
  return value;
}

int DistributedTest::world_size() {
  static const int value = number("WORLD_SIZE");
  return value;
}

const std::string& DistributedTest::backend() {
  static const std::string value = [] {
    const char* said = std::getenv(kTestBackendVariable);
    return std::string(said == nullptr ? "gloo" : said);
  }();
  return value;
}

int DistributedTest::nodes() {
  static const int value =
      std::getenv(kTestNodesVariable) == nullptr ? 1 : number(kTestNodesVariable);
  return value;
}

std::string DistributedTest::shared_path(const std::string& name) {
  return variable(kTestFolderVariable) + "/" + name;
}

c10::intrusive_ptr<c10d::Store> DistributedTest::store(const std::string& name) {
  // Stores live until exit, because the last open FileStore deletes its file.
  static std::mutex mutex;
  static std::map<std::string, c10::intrusive_ptr<c10d::Store>> stores;
  const std::lock_guard lock(mutex);
  auto& store = stores[name];
  if (!store && nodes() > 1) {
    store = c10::make_intrusive<c10d::PrefixStore>("test/" + name, store_of_nodes());
  } else if (!store) {
    store = c10::make_intrusive<c10d::FileStore>(shared_path(name), world_size());
  }
  return store;
}

void DistributedTest::rendezvous(const std::string& place) {
  const auto key = [&](int rank) { return place + "/" + std::to_string(rank); };
  const auto places = store("places");
  places->set(key(rank()), "here");
  std::vector<std::string> all(static_cast<std::size_t>(world_size()));
  for (int i = 0; i < world_size(); ++i) all[static_cast<std::size_t>(i)] = key(i);
  places->wait(all);
}

}  // namespace distrun
