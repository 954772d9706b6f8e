// A project with folders and types named like distrun's internal ones.
#include <cstdlib>
#include <iostream>

#include <distrun/store_client.h>

#include "common/result.h"

int main() {
  const auto address = distrun::parse_store_address(std::getenv("DISTRUN_STORE"));
  auto store = distrun::StoreClient::connect(address.value(), std::chrono::seconds(10)).value();
  store.add("here", 1).value();
  store.barrier("all here", std::atoi(std::getenv("WORLD_SIZE")), std::chrono::seconds(30)).value();
  const Result result{.ranks_here = std::atoi(store.get("here").value()->c_str())};
  std::cout << "rank " << std::getenv("RANK") << ": " << result.ranks_here << " ranks have come\n";
}
