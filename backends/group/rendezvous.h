// Connects the ranks of a run to one store, through an init_method or the launcher's variables.
// distrun/process_group.h describes it for users.
//
//     const Rendezvous found = rendezvous(Environment::from(environ), "", std::chrono::minutes(1));
//     found.store->set("key", "value");
//
// PyTorch source: torch/distributed/rendezvous.py.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <c10/util/intrusive_ptr.h>

#include "common/os/environment.h"

namespace c10d {
class Store;
}

namespace distrun::internal {

// The numbers that the program gave.
struct GivenRank {
  std::optional<int> rank;
  std::optional<int> world_size;
};

struct RankInWorld {
  int rank;
  int world_size;
};

// Missing numbers come from RANK and WORLD_SIZE. Throws c10::ValueError for impossible numbers, and
// c10::Error, which names the variable, if one is missing or malformed.
RankInWorld rank_in_world(const Environment& environment, const GivenRank& given);

struct Rendezvous {
  c10::intrusive_ptr<c10d::Store> store;
  int rank;
  int world_size;
};

// An empty `init_method` means DISTRUN_INIT_METHOD, or env:// if that is not set. Throws the errors
// of rank_in_world(), c10::ValueError if the init_method is malformed or contradicts `given`,
// c10::Error if it names a missing folder, and c10::DistError if the store cannot be reached within
// `timeout`.
Rendezvous rendezvous(const Environment& environment, const std::string& init_method,
                      std::chrono::milliseconds timeout, const GivenRank& given = {});

}  // namespace distrun::internal
