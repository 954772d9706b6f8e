// Workers count themselves in the store of their run, without LibTorch:
//
//     distrun launch --nproc-per-node 2 build-library/use_store
#include <cstdlib>
#include <iostream>

#include <distrun/store_client.h>
#include <distrun/store_server.h>  // To host a store; here the launcher does.

int main() {
  using std::chrono::seconds;
  const char* place = std::getenv("DISTRUN_STORE");
  const char* rank = std::getenv("RANK");
  const char* ranks = std::getenv("WORLD_SIZE");
  if (place == nullptr || rank == nullptr || ranks == nullptr) {
    std::cerr << "start me with distrun launch\n";
    return 2;
  }
  const auto fail = [](const distrun::Error& error) {
    std::cerr << error.message << '\n';
    return 1;
  };
  const auto address = distrun::parse_store_address(place);
  if (!address) return fail(address.error());
  auto store = distrun::StoreClient::connect(*address, seconds(10));
  if (!store) return fail(store.error());
  if (const auto count = store->add("here", 1); !count) return fail(count.error());
  if (const auto all = store->barrier("all here", std::atoi(ranks), seconds(30)); !all) {
    return fail(all.error());
  }
  const auto here = store->get("here");
  if (!here) return fail(here.error());
  std::cout << "rank " << rank << ": " << here->value_or("no") << " ranks have come\n";
}
